"""The position of rows that an incremental snapshot reads."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.postgres.incremental.events import sequence_at


@pytest.mark.parametrize(
    ("position", "sequence"),
    [
        ({"lsn": 300, "lsn_commit": 200}, '["200","300"]'),
        ({"lsn": 300, "lsn_commit": 250, "last_commit_lsn": 200}, '["200","300"]'),
        ({"lsn": 300, "lsn_commit": 250, "last_commit_lsn": 0}, '[null,"300"]'),
    ],
)
def test_rows_are_not_newer_than_the_change_after_the_last_commit(position: dict[str, Any], sequence: str) -> None:
    assert sequence_at(position) == sequence
