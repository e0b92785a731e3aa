"""Notifications about the progress of snapshots, in Debezium's format."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.cdc.config.signal_keys import NotificationSettings
from connectors.cdc.incremental.context import DataCollection, TableScan
from connectors.cdc.offsets import source_partition
from connectors.cdc.snapshot.progress import SnapshotStep, StepKind

log = logging.getLogger(__name__)

_KEY = SchemaBuilder.struct().name("io.debezium.connector.common.NotificationKey").version(1).field("id", Schema.STRING).build()
_VALUE = (
    SchemaBuilder.struct()
    .name("io.debezium.connector.common.Notification")
    .version(1)
    .field("id", Schema.STRING)
    .field("type", Schema.STRING)
    .field("aggregate_type", Schema.STRING)
    .field("additional_data", SchemaBuilder.map(Schema.STRING, Schema.STRING).optional().build())
    .field("timestamp", Schema.INT64)
    .build()
)
_INCREMENTAL = "Incremental Snapshot"
_INITIAL = "Initial Snapshot"


@dataclass(frozen=True, slots=True)
class Notification:
    """What happened. ``id`` is that of the signal, if there was one."""

    id: str
    aggregate_type: str
    type: str
    additional_data: Mapping[str, str]
    timestamp_ms: int


class IncrementalState(Protocol):
    """What an incremental snapshot has to do, and how far it is."""

    @property
    def signal_id(self) -> str | None: ...
    @property
    def collections(self) -> Sequence[DataCollection]: ...
    @property
    def current(self) -> DataCollection: ...
    @property
    def scan(self) -> TableScan: ...


class Notifier:
    """Sends notifications to the enabled channels. Records wait for :meth:`take_records`."""

    def __init__(self, settings: NotificationSettings, topic_prefix: str) -> None:
        self._settings = settings
        self._topic_prefix = topic_prefix
        self._pending: list[Notification] = []

    def snapshot_step(self, step: SnapshotStep, tables: Iterable[str]) -> None:
        """A step of an initial or blocking snapshot of these tables (schema.table)."""
        data: dict[str, str] = {}
        if step.kind is StepKind.TABLE_STARTED:
            data = {"current_collection_in_progress": step.table, "data_collections": ",".join(tables)}
        elif step.kind is StepKind.TABLE_COMPLETED:
            data = {
                "scanned_collection": step.table,
                "data_collections": ",".join(tables),
                "total_rows_scanned": str(step.rows),
                "status": "SUCCEEDED",
            }
        self._notify(_INITIAL, None, step.kind.value, data)

    def snapshot_skipped(self) -> None:
        """The task has started without a snapshot, because one is complete."""
        self._notify(_INITIAL, None, "SKIPPED", {})

    def started(self, context: IncrementalState) -> None:
        self._incremental(context.signal_id, "STARTED", {"data_collections": _names(context.collections)})

    def paused(self, context: IncrementalState) -> None:
        self._incremental(context.signal_id, "PAUSED", {"data_collections": _names(context.collections)})

    def resumed(self, context: IncrementalState) -> None:
        self._incremental(context.signal_id, "RESUMED", {"data_collections": _names(context.collections)})

    def aborted(self, signal_id: str, stopped: Iterable[DataCollection]) -> None:
        self._incremental(signal_id, "ABORTED", {"data_collections": _names(stopped)})

    def in_progress(self, context: IncrementalState) -> None:
        scan = context.scan
        self._incremental(
            context.signal_id,
            "IN_PROGRESS",
            {
                "data_collections": _names(context.collections),
                "current_collection_in_progress": str(context.current),
                "maximum_key": _position(scan.maximum),
                "last_processed_key": _position(scan.end),
            },
        )

    def table_completed(self, context: IncrementalState, rows: int, status: str) -> None:
        self._incremental(
            context.signal_id,
            "TABLE_SCAN_COMPLETED",
            {
                "data_collections": _names(context.collections),
                "scanned_collection": str(context.current),
                "total_rows_scanned": str(rows),
                "status": status,
            },
        )

    def completed(self, signal_id: str | None) -> None:
        self._incremental(signal_id, "COMPLETED", {})

    def _incremental(self, signal_id: str | None, type_: str, data: dict[str, str]) -> None:
        self._notify(_INCREMENTAL, signal_id, type_, data)

    def _notify(self, aggregate: str, id_: str | None, type_: str, data: dict[str, str]) -> None:
        channels = self._settings.channels
        if not channels:
            return
        data["connector_name"] = self._topic_prefix
        notification = Notification(id_ or str(uuid.uuid4()), aggregate, type_, data, time.time_ns() // 1_000_000)
        if "log" in channels:
            log.info("[Notification Service]  %s", notification)
        if "sink" in channels:
            self._pending.append(notification)

    @property
    def has_records(self) -> bool:
        return bool(self._pending)

    def take_records(self, offset: Mapping[str, Any]) -> list[SourceRecord]:
        """Returns the records for the sink channel and removes them."""
        pending, self._pending = self._pending, []
        topic = self._settings.topic
        partition = source_partition(self._topic_prefix)
        return [
            SourceRecord(
                partition,
                offset,
                topic or "",
                None,
                _KEY,
                Struct(_KEY, [n.id]),
                _VALUE,
                Struct(_VALUE, [n.id, n.type, n.aggregate_type, dict(n.additional_data), n.timestamp_ms]),
            )
            for n in pending
        ]


def _names(collections: Iterable[DataCollection]) -> str:
    return ",".join(map(str, collections))


def _position(position: tuple[str | None, ...] | None) -> str:
    if position is None:
        return '"<null>"'
    return ",".join("<null>" if text is None else text for text in position)
