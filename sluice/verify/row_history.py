"""The versions that rows had for a while, from their topics: for rows that change at every look."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from connect.data.struct import Struct
from connect.record import SinkRecord
from sluice.verify.canonical import Form
from sluice.verify.positions import Offsets
from sluice.verify.record_path import RecordPath
from sluice.verify.table_rows import FormKey, TableReader
from worker.kafka.stored_records import KafkaRecord, read_stored, topic_ranges

Versions = dict[FormKey, list[tuple[Form, ...] | None]]
"""By key: the rows in their order; None where the row was deleted."""


def read_history(
    path: RecordPath,
    reader: TableReader,
    kafka: Mapping[str, str],
    starts: Offsets,
    ends: Offsets,
    keys: Collection[FormKey],
) -> Versions:
    """Reads the records between two offsets of each partition, and returns those of some keys as the sink writes them. Raises
    ConnectError if one of them cannot be read: a row is judged by all of its versions, or not at all."""
    found: Versions = {}
    wanted = {partition: end for partition, end in sorted(ends.items()) if partition.topic in reader.plan.topics}
    if not wanted:
        return found
    # An open transaction may be at the end. Sinks have not read what is behind its start either.
    stored = topic_ranges(kafka, sorted({partition.topic for partition in wanted}))
    for partition, end in wanted.items():
        earliest, committed = stored[partition]
        for records in read_stored(kafka, partition, max(starts.get(partition, 0), earliest), min(end, committed)):
            _add(found, path, reader, records, keys)
    return found


def _add(
    found: Versions, path: RecordPath, reader: TableReader, messages: Sequence[KafkaRecord], keys: Collection[FormKey]
) -> None:
    for record in path.read_messages([(m.topic, m.partition, m.offset, m.key, m.value) for m in messages]):
        rows = [] if record.value is None else list(reader.expected_of([record]))
        if rows:
            (row,) = zip(*rows[0].forms, strict=True)
            key = row[: reader.plan.key_size]
            if key in keys:
                found.setdefault(key, []).append(row)
            continue
        deleted = _key_of(reader, record)
        if deleted in keys:
            found.setdefault(deleted, []).append(None)


def _key_of(reader: TableReader, record: SinkRecord) -> FormKey:
    """The key of a delete; of no row if the record key has other fields than the table's key."""
    key: Any = record.key
    forms: list[Form] = []
    for name in reader.key_names:
        if isinstance(key, Struct) and (field := key.schema.field(name)) is not None:
            schema, value = field.schema, key.values[field.index]
        elif isinstance(key, dict) and name in key:
            schema, value = None, key[name]
        elif len(reader.key_names) == 1 and key is not None and not isinstance(key, Struct | dict):
            schema, value = record.key_schema, key
        else:
            return ()
        forms.extend(reader.forms_of(name, schema).of_expected([value]))
    return tuple(forms)
