"""Who is asked, in which order, and what the worker stores, when offsets are changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, cast

import pytest

from connect.errors import BadRequestError, ConnectError, UnsupportedError
from connect.record import TopicPartition
from worker.executor import ConnectorSpec, Executor
from worker.model import OffsetEntry
from worker.operations.offsets.alter import alter_sink_offsets, alter_source_offsets
from worker.operations.offsets.changes import SinkOffsets
from worker.operations.offsets.sink_groups import SinkGroups
from worker.storage.offset_store import OffsetPair, OffsetStore

SPEC = ConnectorSpec("c", {}, {"name": "c"})
TP = TopicPartition("t", 0)


class Told:
    """Executor, store and groups at once; notes what happens in its order."""

    def __init__(self, answer: bool | Exception | None = True) -> None:
        self.steps: list[Any] = []
        self.answer = answer
        self.refuses = False
        self.stored: list[OffsetEntry] = []

    def alter_offsets(self, spec: ConnectorSpec, offsets: Sequence[OffsetPair], *, reset: bool = False) -> Future[bool]:
        self.steps.append(("asked to reset" if reset else "asked", list(offsets)))
        future: Future[bool] = Future()
        if isinstance(self.answer, Exception):
            future.set_exception(self.answer)
        elif self.answer is not None:
            future.set_result(self.answer)
        return future

    def entries(self, connector: str) -> list[OffsetEntry]:
        return self.stored

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self.steps.append(("stored", list(offsets)))

    def partitions(self, connector: str, config: Mapping[str, str]) -> set[TopicPartition]:
        return {TP}

    def require_changeable(self, connector: str, config: Mapping[str, str], offsets: SinkOffsets | None) -> None:
        if self.refuses:
            raise ConnectError("in use")

    def alter(self, connector: str, config: Mapping[str, str], offsets: SinkOffsets) -> None:
        self.steps.append(("committed", dict(offsets)))

    def reset(self, connector: str, config: Mapping[str, str]) -> None:
        self.steps.append("deleted")


def source(told: Told, offsets: list[OffsetEntry] | None) -> str:
    return alter_source_offsets(cast(Executor, told), cast(OffsetStore, told), SPEC, offsets, timeout_s=0.01)


def sink(told: Told, offsets: list[OffsetEntry] | None) -> str:
    return alter_sink_offsets(cast(Executor, told), cast(SinkGroups, told), SPEC, offsets, timeout_s=0.01)


def test_source_is_asked_before_its_offsets_are_stored() -> None:
    told = Told()
    assert "altered successfully" in source(told, [OffsetEntry({"f": "a"}, {"p": 1})])
    assert told.steps == [("asked", [({"f": "a"}, {"p": 1})]), ("stored", [({"f": "a"}, {"p": 1})])]


def test_reset_removes_every_stored_partition() -> None:
    told = Told(answer=False)
    told.stored = [OffsetEntry({"f": "a"}, {"p": 1})]
    assert source(told, None).startswith("The Connect framework-managed offsets for this connector have been reset")
    assert told.steps == [("asked", [({"f": "a"}, None)]), ("stored", [({"f": "a"}, None)])]


def test_reset_without_offsets_stores_nothing() -> None:
    told = Told()
    source(told, None)
    assert told.steps == [("asked", [])]


@pytest.mark.parametrize("change", [source, sink])
@pytest.mark.parametrize(
    ("answer", "kind", "text"),
    [
        (UnsupportedError("no"), ConnectError, "connector c because it doesn't support external modification of offsets"),
        (BadRequestError("wrong"), BadRequestError, "^wrong$"),
        (KeyError("x"), ConnectError, "Failed to modify offsets for (source|sink) connector c: 'x'"),
        (
            None,
            ConnectError,
            r"^Timed out while calling the 'alterOffsets' method for (source|sink) connector c\. The connector may still",
        ),
    ],
)
def test_nothing_changes_if_the_connector_rejects_the_request(change: Any, answer: Any, kind: type[Exception], text: str) -> None:
    told = Told(answer)
    with pytest.raises(kind, match=text):
        change(told, None)
    assert [step[0] for step in told.steps] == ["asked to reset" if change is sink else "asked"]


def test_sink_is_asked_before_its_group_is_changed() -> None:
    told = Told()
    sink(told, [OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})])
    asked = ({"kafka_partition": 0, "kafka_topic": "t"}, {"kafka_offset": 7})
    assert told.steps == [("asked", [asked]), ("committed", {TP: 7})]


def test_reset_of_a_sink_deletes_its_group() -> None:
    told = Told()
    assert sink(told, None) == "The offsets for this connector have been reset successfully"
    assert told.steps == [("asked to reset", [({"kafka_partition": 0, "kafka_topic": "t"}, None)]), "deleted"]


@pytest.mark.parametrize("offsets", [None, [OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": 7})]])
def test_group_that_cannot_be_changed_raises_before_the_connector_changes_anything(offsets: list[OffsetEntry] | None) -> None:
    told = Told()
    told.refuses = True
    with pytest.raises(ConnectError, match="in use"):
        sink(told, offsets)
    assert told.steps == []


def test_negative_offset_of_a_sink_is_rejected() -> None:
    with pytest.raises(ConnectError, match="Invalid negative offset -1 for t-0"):
        sink(Told(), [OffsetEntry({"kafka_topic": "t", "kafka_partition": 0}, {"kafka_offset": -1})])
