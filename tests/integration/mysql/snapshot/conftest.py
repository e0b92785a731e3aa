"""A connector whose tasks take snapshots."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.mysql.snapshot.rig import SnapshotSource


@pytest.fixture
def source(mariadb: EmbeddedMariaDB, mariadb_database: str) -> Iterator[SnapshotSource]:
    made = SnapshotSource(mariadb, mariadb_database)
    yield made
    made.close()
