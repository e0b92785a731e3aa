"""The options of tables that a stream fills."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.spark.datasource.tables import SpoolTables


def test_option_table_is_refused(tmp_path: Path) -> None:
    source = {"connector.class": "PostgresConnector", "spool.location": str(tmp_path / "spool"), "table": "public.orders"}
    session: Any = SimpleNamespace(_jsparkSession=object())
    with pytest.raises(ConfigError, match=r"table: SpoolTables writes all tables; choose them with topics of a sink"):
        SpoolTables(session, source, {"table.location": str(tmp_path)})
