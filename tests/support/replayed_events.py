"""Runs the source task over tables and replays its events into rows."""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from connect.converters.api import Converter
from connect.converters.json.converter import JsonConverter
from connect.data.struct import Struct
from connect.record import SourceRecord
from connect.testing import MemoryOffsets, SourceHarness
from connectors.spark.source.offsets import table_partition
from connectors.spark.source.task import SparkSourceTask

FAST = {"topic": "t", "poll.interval.ms": "1"}


def read_all(folder: Path, offsets: MemoryOffsets | None = None, **config: str) -> list[SourceRecord]:
    """All records up to the newest version, with their offsets stored."""
    keys = {name.replace("_", "."): value for name, value in config.items()}
    with SourceHarness(SparkSourceTask(), {**FAST, "source.location": str(folder), **keys}, offsets) as harness:
        records = poll_all(harness)
        harness.commit()
    return records


def poll_all(harness: SourceHarness) -> list[SourceRecord]:
    """Polls until every table of the task has no more changes. Raises what ends the task."""
    records = harness.poll()
    while not is_complete(harness.task.progress()):
        records += harness.poll()
    return records


def is_complete(progress: Mapping[str, Any]) -> bool:
    tables = progress["table_progress"].values()
    return all(one["phase"] == "waiting" and one["lag_versions"] == 0 for one in tables)


def deliver_with_kills(
    draw: Callable[[st.SearchStrategy[Any]], Any], config: Mapping[str, str], location: str, change: Callable[[], None]
) -> list[SourceRecord]:
    """Runs the task several times, and kills it when the broker has the records up to any one. ``change`` changes the table,
    before and during each run. Returns the records that the broker has; promise 5: those of each run follow those before."""
    offsets, partition = MemoryOffsets(), table_partition(location)
    delivered: list[SourceRecord] = []
    for _ in range(draw(st.integers(1, 4))):
        change()
        with SourceHarness(SparkSourceTask(), config, offsets) as harness:
            found = harness.poll()
            change()
            found += poll_all(harness) if draw(st.booleans()) else harness.poll()
        kept = found[: round(len(found) * draw(st.floats(0, 1)))]
        delivered += kept
        if kept:
            assert kept[-1].source_offset is not None
            offsets.store(partition, kept[-1].source_offset)
    with SourceHarness(SparkSourceTask(), config, offsets) as harness:
        delivered += poll_all(harness)
    return delivered


def plain(value: Any) -> Any:
    """A struct as a dict, also in arrays and maps."""
    if isinstance(value, Struct):
        return {f.name: plain(v) for f, v in zip(value.schema.fields or (), value.values, strict=True)}
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items()}
    return [plain(v) for v in value] if isinstance(value, list) else value


def events(records: Iterable[SourceRecord]) -> list[tuple[str, Any, Any]]:
    """Operation, before, and after of each event; tombstones are left out."""
    shown = [plain(record.value) for record in records if record.value is not None]
    return [(value["op"], value["before"], value["after"]) for value in shown]


def frozen(row: Mapping[str, Any]) -> str:
    return json.dumps(row, sort_keys=True, default=str)


class Replayed:
    """The rows that events add up to."""

    def __init__(self) -> None:
        self.rows: Counter[str] = Counter()

    def apply(self, record: SourceRecord) -> None:
        """Applies an event. Raises AssertionError if it deletes a row that is not there."""
        if record.value is None:
            return
        value = plain(record.value)
        if value["before"] is not None:
            before = frozen(_without_new_columns(value["before"]))
            assert self.rows[before] > 0, f"there is no row {before}"
            self.rows[before] -= 1
        if value["after"] is not None:
            self.rows[frozen(_without_new_columns(value["after"]))] += 1


def _without_new_columns(row: Mapping[str, Any]) -> dict[str, Any]:
    """A column that is null counts as one that is not there: rows get new columns without an event."""
    return {name: value for name, value in row.items() if value is not None}


def as_counter(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    return Counter(frozen(_without_new_columns(row)) for row in rows)


def check_every_version(records: Iterable[SourceRecord], rows: Mapping[int, Iterable[Mapping[str, Any]]]) -> None:
    """Requires that events add up to the rows of each version, from that of the first event on."""
    replayed = Replayed()
    by_version: dict[int, list[SourceRecord]] = {}
    for record in records:
        by_version.setdefault((record.source_offset or {})["version"], []).append(record)
    for version in sorted(rows):
        for record in by_version.get(version, []):
            replayed.apply(record)
        if by_version and version >= min(by_version):
            assert +replayed.rows == as_counter(rows[version]), f"version {version}"


def check_restarts(
    records: Sequence[SourceRecord], read: Callable[[MemoryOffsets], Sequence[SourceRecord]], cuts: Iterable[int]
) -> None:
    """Promise 5: a restart at any record continues with the next one."""
    for cut in cuts:
        record = records[cut]
        assert record.source_partition is not None
        offsets = MemoryOffsets()
        offsets.store(record.source_partition, record.source_offset)
        is_event_of_tombstone = cut + 1 < len(records) and records[cut + 1].value is None
        first = cut if is_event_of_tombstone else cut + 1
        assert [_identity(r) for r in read(offsets)] == [_identity(r) for r in records[first:]]


def _identity(record: SourceRecord) -> tuple[Any, ...]:
    value = plain(record.value)
    if value is not None:
        del value["ts_ms"]
    return plain(record.key), value, record.source_offset


@functools.cache
def _converters() -> tuple[JsonConverter, JsonConverter]:
    key, value = JsonConverter(), JsonConverter()
    key.configure({}, True)
    value.configure({}, False)
    return key, value


def in_json(
    record: SourceRecord, key: Converter | None = None, value: Converter | None = None
) -> tuple[bytes | None, bytes | None]:
    """Key and value as converters write them, one record at a time; JsonConverters without settings by default."""
    of_keys, of_values = _converters()
    key, value = key or of_keys, value or of_values
    return (
        key.from_connect_data(record.topic, record.key_schema, record.key),
        value.from_connect_data(record.topic, record.value_schema, record.value),
    )
