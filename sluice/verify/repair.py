"""Mends rows that differ, through the pipeline: the source reads them again, and the sink writes them like any other change.

Rows that only the target has get the events of a delete first. An insert of the same key at that moment cannot be lost: the
source reads the key again afterwards, so its row follows the delete in the topic.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect.errors import ConfigError
from connect.verification import Key, VerifiableSink, VerifiableSource
from rest.client import ConnectClient
from sluice.verify.model import DifferenceKind, VerificationResult
from sluice.verify.record_path import RecordPath
from worker.kafka.console import produce
from worker.kafka.partitioner import JAVA_PARTITIONER

_KEYS_PER_SIGNAL = 500
_SHOWN_KEYS = 5


@dataclass(slots=True)
class _TableRepair:
    again: list[Key] = field(default_factory=list)
    deleted: list[Key] = field(default_factory=list)


class RepairPlan:
    """What a repair sends."""

    def __init__(
        self,
        source: VerifiableSource,
        path: RecordPath,
        client: ConnectClient,
        connector: str,
        kafka: Mapping[str, str],
        tables: Mapping[str, _TableRepair],
        unknown: int,
    ) -> None:
        self._source = source
        self._path = path
        self._client = client
        self._connector = connector
        self._kafka = kafka
        self._tables = tables
        self._unknown = unknown

    def describe(self, *, with_values: bool) -> Iterator[str]:
        """Yields a line for each kind of message."""
        for table, one in self._tables.items():
            if one.deleted:
                keys = _keys(one.deleted, with_values)
                yield f"{table}: delete events for {len(one.deleted)} rows that only the target has{keys}"
            yield (
                f"{table}: a signal to {self._connector}, which reads {len(one.again)} rows again{_keys(one.again, with_values)}"
            )
        if self._unknown:
            yield f"{self._unknown} rows cannot be mended: their keys in the source are not known"

    def send(self) -> None:
        """Sends everything; returns once Kafka and the connector have it. Raises ConnectError."""
        properties = {"partitioner": JAVA_PARTITIONER, **self._kafka}
        for table, one in self._tables.items():
            if one.deleted:
                messages: dict[str, list[tuple[bytes | None, bytes | None]]] = defaultdict(list)
                for topic, key, value in self._path.write_bytes(self._source.delete_events(table, one.deleted)):
                    messages[topic].append((key, value))
                for topic, records in messages.items():
                    produce(properties, topic, records)
            # After the deletes, so that the rows follow them.
            for start in range(0, len(one.again), _KEYS_PER_SIGNAL):
                signal = self._source.read_again(table, one.again[start : start + _KEYS_PER_SIGNAL])
                self._client.signal(self._connector, *signal)


def _keys(keys: Sequence[Key], with_values: bool) -> str:
    if not with_values:
        return ""
    shown = ", ".join("/".join(key) for key in keys[:_SHOWN_KEYS])
    return f": {shown}{', ...' if len(keys) > _SHOWN_KEYS else ''}"


class Repair:
    """Plans the repair of what a verification has found."""

    def __init__(
        self,
        source: VerifiableSource,
        sink: VerifiableSink,
        path: RecordPath,
        client: ConnectClient,
        kafka: Mapping[str, str],
    ) -> None:
        self._source = source
        self._sink = sink
        self._path = path
        self._client = client
        self._kafka = kafka

    def plan(self, result: VerificationResult) -> RepairPlan:
        """Raises ConfigError if the rows cannot be deleted."""
        tables: dict[str, _TableRepair] = defaultdict(_TableRepair)
        unknown = 0
        for table in result.tables:
            for difference in table.differences:
                if difference.source_key is None:
                    unknown += 1
                    continue
                one = tables[difference.source_table]
                one.again.append(difference.source_key)
                if difference.kind in (DifferenceKind.EXTRA, DifferenceKind.DUPLICATE):
                    one.deleted.append(difference.source_key)
        if any(one.deleted for one in tables.values()):
            if self._sink.keeps_deleted_rows:
                raise ConfigError(f"{result.sink} deletes no rows, so rows that only the target has cannot be mended")
            if not self._path.knows_converters:
                raise ConfigError(
                    "Deletes are written with the converters of the worker: pass its file with --worker-config to mend rows that "
                    "only the target has"
                )
        return RepairPlan(self._source, self._path, self._client, result.source, self._kafka, tables, unknown)
