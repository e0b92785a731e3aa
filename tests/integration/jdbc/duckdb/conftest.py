from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jdbc.sqlite.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk("duckdb", tmp_path / "a.duckdb")
    yield made
    made.close()
