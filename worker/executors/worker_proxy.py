"""The worker as seen by an executor process: reports and calls that go over the channel."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from worker.executors.channel import Channel
from worker.executors.messages import (
    entries_of_plain,
    id_to_plain,
    offsets_to_plain,
    records_of_plain,
    stall_to_plain,
)
from worker.model import OffsetEntry, Stall, State, TaskId
from worker.storage.offset_store import OffsetPair, OffsetRecord


class RemoteListener:
    """Implements :class:`worker.executor.ExecutorListener`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def on_connector_state(self, start_id: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self._channel.notify("connector_state", start_id=start_id, name=name, state=state.value, trace=trace, version=version)

    def on_task_state(self, start_id: int, task: TaskId, state: State, trace: str | None, version: str | None) -> None:
        plain = id_to_plain(task)
        # A task reports on its own thread; the control process names that thread in the log if it hangs.
        thread = threading.get_ident()
        self._channel.notify(
            "task_state", start_id=start_id, task=plain, state=state.value, trace=trace, version=version, thread=thread
        )

    def on_reconfiguration_requested(self, start_id: int, name: str) -> None:
        self._channel.notify("reconfiguration", start_id=start_id, name=name)

    def on_topics(self, start_id: int, task: TaskId, topics: Collection[str]) -> None:
        self._channel.notify("topics", start_id=start_id, task=id_to_plain(task), topics=sorted(topics))

    def on_stall(self, start_id: int, instance: str | TaskId, stall: Stall | None) -> None:
        plain = id_to_plain(instance) if isinstance(instance, TaskId) else instance
        self._channel.notify("stall", start_id=start_id, instance=plain, stall=stall_to_plain(stall))


class RemoteOffsets:
    """Implements :class:`worker.storage.offset_store.OffsetStore`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    def get(self, connector: str, partition: Mapping[str, Any] | None) -> dict[str, Any] | None:
        found = self._channel.call("offset", connector=connector, partition=partition).result()
        return None if found is None else dict(found)

    def put(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self._channel.call("put_offsets", connector=connector, offsets=offsets_to_plain(offsets)).result()

    def entries(self, connector: str) -> list[OffsetEntry]:
        return entries_of_plain(self._channel.call("offsets", connector=connector).result())


class RemoteServices:
    """Implements :class:`worker.executor.WorkerServices`."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._offsets = RemoteOffsets(channel)

    @property
    def offsets(self) -> RemoteOffsets:
        return self._offsets

    def offset_records(self, connector: str, offsets: Sequence[OffsetPair]) -> list[OffsetRecord]:
        return records_of_plain(self._call("offset_records", connector, offsets))

    def offsets_committed(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self._call("offsets_committed", connector, offsets)

    def before_commit(self, connector: str, offsets: Sequence[OffsetPair]) -> None:
        self._call("before_commit", connector, offsets)

    def confirm_task(self, start_id: int, task: TaskId, *, with_coordinator: bool = False) -> None:
        self._channel.call("confirm_task", start_id=start_id, task=id_to_plain(task), with_coordinator=with_coordinator).result()

    def _call(self, method: str, connector: str, offsets: Sequence[OffsetPair]) -> Any:
        return self._channel.call(method, connector=connector, offsets=offsets_to_plain(offsets)).result()
