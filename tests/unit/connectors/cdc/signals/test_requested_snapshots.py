"""Blocking snapshots on request: one after another, until they are complete or fail for good."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from connect.record import SourceRecord
from connectors.cdc.errors import ConnectionLostError, RejectedStatementError, TablesChangedError
from connectors.cdc.incremental.requests import SnapshotRequest
from connectors.cdc.signals.blocking import RequestedOffsets, RequestedSnapshots
from connectors.cdc.snapshot.progress import SnapshotStep
from connectors.cdc.streaming.offset_extras import OffsetExtras

_RECORD = SourceRecord(None, None, "t", None, None, None, None, None)


@dataclass
class OneBlock:
    """A snapshot of one block of rows."""

    problem: Exception | None = None
    tables: Sequence[str] = ("d.t",)
    done: bool = False
    is_closed: bool = False

    def read(self) -> list[SourceRecord]:
        if self.problem is not None:
            raise self.problem
        self.done = True
        return [_RECORD]

    def take_steps(self) -> list[SnapshotStep]:
        return []

    def close(self) -> None:
        self.is_closed = True


class ScriptedSnapshots(RequestedSnapshots[OneBlock, str]):
    """Opens what the script says: a snapshot, None, or an error to raise."""

    def __init__(self, extras: OffsetExtras, script: Sequence[OneBlock | Exception | None]) -> None:
        super().__init__(extras)
        self._script = list(script)

    def _open(self, request: SnapshotRequest, point: str) -> OneBlock | None:
        opened = self._script.pop(0)
        if isinstance(opened, Exception):
            raise opened
        return opened


def requested(*script: OneBlock | Exception | None) -> tuple[ScriptedSnapshots, OffsetExtras]:
    """Two requests, s1 and s2, and what offsets have because of them."""
    extras = OffsetExtras()
    snapshots = ScriptedSnapshots(extras, script)
    for number in (1, 2):
        snapshots.add(SnapshotRequest(f"s{number}", ("d.t",), is_blocking=True))
    return snapshots, extras


def stored_ids(extras: OffsetExtras) -> str:
    return str(extras.offset_extras.get("blocking_snapshot_requests", ""))


def test_requests_are_stored_until_their_last_row() -> None:
    snapshots, extras = requested(OneBlock(), OneBlock())
    extras.set_offset_extras("other", {"x": 1})
    assert snapshots.start("here") is not None
    offsets = RequestedOffsets({"pos": 7}, snapshots.offset_extras)
    step = offsets.step(last=True)
    assert step.before["x"] == step.after["x"] == 1
    assert (step.before["pos"], step.after["pos"]) == (7, 7)
    assert "s1" in step.before["blocking_snapshot_requests"]
    assert "s1" not in step.after["blocking_snapshot_requests"]
    assert snapshots.read() == [_RECORD]
    assert "s1" not in stored_ids(extras)
    assert "s2" in stored_ids(extras)
    assert snapshots.start("here") is not None
    snapshots.read()
    assert extras.offset_extras == {"x": 1}


def test_a_request_without_tables_is_done() -> None:
    snapshots, extras = requested(None)
    assert snapshots.start("here") is None
    assert "s1" not in stored_ids(extras)


@pytest.mark.parametrize("fails_while_reading", [False, True])
def test_tables_that_keep_changing_are_given_up_at_the_third_attempt(fails_while_reading: bool) -> None:
    error = TablesChangedError("changed")
    opened = [OneBlock(error) if fails_while_reading else error for _ in range(3)]
    snapshots, extras = requested(*opened)

    def attempt() -> Any:
        if snapshots.start("here") is not None:
            return snapshots.read()
        return []

    for _ in range(2):
        with pytest.raises(TablesChangedError):
            attempt()
        snapshots.close()
        assert "s1" in stored_ids(extras)
    assert attempt() == []
    assert snapshots.session is None
    assert "s1" not in stored_ids(extras)


@pytest.mark.parametrize("fails_while_reading", [False, True])
def test_a_rejected_statement_ends_the_request_at_once(fails_while_reading: bool) -> None:
    error = RejectedStatementError("syntax error")
    block = OneBlock(error)
    snapshots, extras = requested(block if fails_while_reading else error)
    if snapshots.start("here") is not None:
        assert snapshots.read() == []
    assert block.is_closed == fails_while_reading
    assert "s1" not in stored_ids(extras)


def test_a_lost_connection_starts_the_snapshot_over() -> None:
    block = OneBlock(ConnectionLostError("lost"))
    snapshots, extras = requested(block, OneBlock())
    snapshots.start("here")
    with pytest.raises(ConnectionLostError):
        snapshots.read()
    snapshots.close()
    assert block.is_closed
    again = ScriptedSnapshots(OffsetExtras(), [OneBlock()])
    again.load(dict(extras.offset_extras))
    assert again.start("here") is not None
    assert again.read() == [_RECORD]
