"""What a table must contain: the records of a topic, applied one by one in plain Python, without anything of the sink."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, DELETED, HARD, LOG, SCD2, SEQ, SOFT, SOURCE, UPSERT, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import ChangeBatch, make_meta

TOPIC = "topic"
APPENDED, UPSERTED, SOFTLY, VERSIONS = "append", "upsert", "soft", "scd2"
"""What the table keeps: every record; the newest row of a key; that and deleted rows, marked; all versions of a row."""
ORDERED, ORDERED_SOFTLY = "ordered", "ordered-soft"
"""Like two of those, but the newest row is that of the source."""

Row = tuple[object, ...]
"""``id`` and ``v``; with SOFTLY ``__deleted``; with VERSIONS the milliseconds from which and to which it is valid, and
``__current``; last, if the source orders rows, the position there. A deleted row of ORDERED leaves it behind, with :class:`Gone`
as ``id``."""

_UTC = pa.timestamp("us", "UTC")
_OWN_COLUMNS: Mapping[str, dict[str, pa.DataType]] = {
    APPENDED: {},
    UPSERTED: {},
    SOFTLY: {DELETED: pa.bool_()},
    VERSIONS: {SEQ: pa.string(), VALID_FROM: _UTC, VALID_TO: _UTC, CURRENT: pa.bool_()},
    ORDERED: {SEQ: pa.string()},
    ORDERED_SOFTLY: {DELETED: pa.bool_(), SEQ: pa.string()},
}


def columns_of(mode: str) -> dict[str, pa.DataType]:
    """The columns of a table."""
    return {"id": pa.int64(), "v": pa.string(), **_OWN_COLUMNS[mode]}


def row_columns(mode: str) -> list[str]:
    """The columns of a row in the model."""
    return [name for name in columns_of(mode) if name != SEQ or mode != VERSIONS]


@dataclass(frozen=True, slots=True)
class Gone:
    """The key of a deleted row, whose position the sink remembers beside the table; None for the last truncate."""

    id: int | None


def visible(rows: Sequence[Row]) -> list[Row]:
    """The rows that are in the table."""
    return [row for row in rows if not isinstance(row[0], Gone)]


def remembered(rows: Sequence[Row]) -> list[Row]:
    """What the sink remembers beside the table."""
    return [row for row in rows if isinstance(row[0], Gone)]


def settings_of(mode: str) -> TableConfig:
    """How the sink is configured."""
    write_mode = {APPENDED: "append", VERSIONS: SCD2}.get(mode, UPSERT)
    delete_mode = SOFT if mode in (SOFTLY, ORDERED_SOFTLY) else HARD
    return TableConfig(
        write_mode, (), delete_mode, "add", tuple(_OWN_COLUMNS[mode]), keep_tombstones=False,
        sequence_by=SOURCE if mode in (ORDERED, ORDERED_SOFTLY) else LOG,
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """A change of the source: ``c``, ``u``, ``d`` of a row, or ``t`` of all of them. ``at`` is its place in the source's log."""

    op: str
    id: int | None
    value: str | None
    at: int


class Topic:
    """The records of all partitions, from a text such as ``c1 c2 u1 d2 t``, with ``|`` between partitions."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.partitions: dict[TopicPartition, list[Event]] = {}
        for number, part in enumerate(text.split("|")):
            events = [_event(word, number, offset) for offset, word in enumerate(part.split())]
            self.partitions[TopicPartition(TOPIC, number)] = events

    def batch(self, partition: TopicPartition, first: int, end: int, sequence: int) -> ChangeBatch:
        """Records as the sink's decoders give them; ``sequence`` counts what the task has received."""
        events = self.partitions[partition][first:end]
        meta = make_meta(
            pa.array(range(sequence, sequence + len(events)), pa.int64()),
            pa.array([e.op for e in events], pa.string()),
            pa.array([e.at for e in events], pa.int64()),
            pa.array([partition.partition] * len(events), pa.int32()),
            pa.array(range(first, first + len(events)), pa.int64()),
            positions=pa.array([position_of(e) for e in events], pa.string()),
        )
        image = pa.table(
            {"id": pa.array([e.id for e in events], pa.int64()), "v": pa.array([e.value for e in events], pa.string())}
        )
        return ChangeBatch(TOPIC, meta, image, image.select(["id"]))


def position_of(event: Event) -> str:
    """Its place in the source's log, as texts are ordered."""
    return f"{event.at:020d}"


def _event(word: str, partition: int, offset: int) -> Event:
    found = re.fullmatch(r"([cud])(\d+)|(t)", word)
    assert found is not None, word
    value = f"{partition}-{offset}" if found[1] in ("c", "u") else None
    return Event(found[1] or found[3], int(found[2]) if found[2] else None, value, 1000 * (offset + 1) + partition)


def apply_event(mode: str, rows: Sequence[Row], event: Event) -> list[Row]:
    """The rows after a change."""
    match mode:
        case "append":
            return [*rows, (event.id, event.value)]
        case "upsert":
            kept = [] if event.op == "t" else [row for row in rows if row[0] != event.id]
            return kept if event.op in "dt" else [*kept, (event.id, event.value)]
        case "soft":
            return _apply_softly(rows, event)
        case "ordered" | "ordered-soft":
            return _apply_in_order(rows, event, softly=mode == ORDERED_SOFTLY)
        case _:
            return _apply_to_versions(rows, event)


def _apply_softly(rows: Sequence[Row], event: Event) -> list[Row]:
    if event.op == "t":
        return [(id_, value, True) for id_, value, _ in rows]
    before = next((row for row in rows if row[0] == event.id), (event.id, None, False))
    kept = [row for row in rows if row[0] != event.id]
    return [*kept, (event.id, before[1], True) if event.op == "d" else (event.id, event.value, False)]


def _apply_in_order(rows: Sequence[Row], event: Event, *, softly: bool) -> list[Row]:
    position = position_of(event)

    def is_older(row: Row) -> bool:
        return row[-1] is None or str(row[-1]) <= position

    same, others = ([row for row in rows if (row[0] in (event.id, Gone(event.id))) is meant] for meant in (True, False))
    if not all(is_older(row) for row in rows if row in same or row[0] == Gone(None)):
        return list(rows)
    if softly and event.op == "t":
        marked = [(*row[:2], True, position) if is_older(row) and not row[2] else row for row in visible(rows)]
        return [*marked, (Gone(None), position)]
    if softly:
        value = next((row[1] for row in same), None) if event.op == "d" else event.value
        return [*others, (event.id, value, event.op == "d", position)]
    if event.op == "t":
        return [*(row for row in rows if not is_older(row)), (Gone(None), position)]
    return [*others, (Gone(event.id), position) if event.op == "d" else (event.id, event.value, position)]


def _apply_to_versions(rows: Sequence[Row], event: Event) -> list[Row]:
    def closed(row: Row) -> Row:
        is_meant = row[4] and (event.op == "t" or row[0] == event.id)
        return (*row[:3], event.at, False) if is_meant else row

    found = [closed(row) for row in rows]
    return found if event.op in "dt" else [*found, (event.id, event.value, event.at, None, True)]
