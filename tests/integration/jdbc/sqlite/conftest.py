from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jdbc.sqlite.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    made = Desk("sqlite", tmp_path / "a.db")
    yield made
    made.close()
