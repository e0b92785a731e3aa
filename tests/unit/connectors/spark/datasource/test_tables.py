"""The options of tables that a stream fills."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.spark.datasource.tables import SpoolTables

SOURCE = {"connector.class": "PostgresConnector"}
SESSION: Any = SimpleNamespace(_jsparkSession=object())


def test_option_table_is_refused(tmp_path: Path) -> None:
    source = {**SOURCE, "spool.location": str(tmp_path / "spool"), "table": "public.orders"}
    with pytest.raises(ConfigError, match=r"table: SpoolTables writes all tables; choose them with topics of a sink"):
        SpoolTables(SESSION, source, {"table.location": str(tmp_path)})


@pytest.mark.parametrize(("given", "expected"), [({}, "nothing"), ({"unavailable.value.placeholder": "other"}, "other")])
def test_sinks_recognize_the_placeholder_of_the_connector(tmp_path: Path, given: dict[str, str], expected: str) -> None:
    source = {**SOURCE, "spool.location": str(tmp_path / "spool"), "unavailable.value.placeholder": "nothing"}
    with SpoolTables(SESSION, source, {"table.location": str(tmp_path / "lake"), **given}) as tables:
        assert [sink.config.table.unavailable for sink in tables._sinks] == [expected]
