"""Offsets of a table that a task refuses can be read and set: that is the way out."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConnectError
from tests.unit.connectors.spark.tables.delta.fake_delta import TP, FakeDelta, offsets, rows


def test_offsets_that_were_set_to_the_start_before_a_restore_can_be_set_again(tmp_path: Path) -> None:
    delta = FakeDelta(tmp_path / "t")
    task = delta.open()
    task.load([TP])
    assert task.append(rows(1, 2), offsets(0, 2)) == 1
    delta.open().move_offsets({TP: None})
    delta.commit([], operation="RESTORE")
    with pytest.raises(ConnectError, match="RESTORE replaced the table's rows"):
        delta.open().load([TP])
    operator = delta.open()
    assert operator.stored_ends() == {}
    operator.move_offsets({TP: 2})
    assert delta.open().load([TP]).ends == {TP: 2}
