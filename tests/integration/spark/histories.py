"""Random histories of a table: change events in partitions, what tasks and other writers do, and a model of the result.

A history is data, so that the same one can run against tables of several kinds. The model applies the records of a commit one by
one, in the order of their arrival at the task.
"""

from __future__ import annotations

import base64
import decimal
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.integration.spark.change_events import PLACEHOLDER, change, decimal_bytes, key
from tests.integration.spark.change_events import field as column
from tests.support import randomness

Row = dict[str, Any]

PARTITIONS = 3
KEYS = 24
_FIRST = [
    column("id", "int64"),
    column("name", "string"),
    column("credit", "bytes", semantic="org.apache.kafka.connect.data.Decimal", scale="2"),
    column("photo", "bytes"),
    column("ratio", "double"),
]
_LEVEL = column("level", "int32")
VERSIONS = [
    _FIRST,
    [*_FIRST[:2], _LEVEL, *_FIRST[2:]],
    [*_FIRST[:2], _LEVEL, *_FIRST[3:], column("note", "string")],  # without credit
]
"""The schemas of the records, each with other columns than the one before."""
COLUMNS = ["id", "name", "credit", "photo", "ratio", "level", "note"]
FOREIGN = "another writer"


@dataclass(frozen=True, slots=True)
class Event:
    """A record. ``op`` is Debezium's, or ``tombstone``; ``unavailable`` are columns whose value it lacks."""

    op: str
    id: int
    row: Row
    version: int
    unavailable: tuple[str, ...] = ()

    def key(self) -> bytes | None:
        return key(self.id)

    def value(self) -> bytes | None:
        if self.op == "tombstone":
            return None
        schema = VERSIONS[self.version]
        image: dict[str, object] = {f["field"]: None for f in schema} | {"id": self.id}
        if self.op == "d":
            return change("d", image, None, schema)
        image |= {name: _encode(value) for name, value in self.row.items()}
        for name in self.unavailable:
            image[name] = PLACEHOLDER if name == "name" else base64.b64encode(PLACEHOLDER.encode()).decode()
        return change(self.op, None, image, schema)


def _encode(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        return decimal_bytes(value)
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


@dataclass(frozen=True, slots=True)
class Step:
    """One action. ``middle`` happens when the task reaches ``point`` in a commit, or while it compacts; then it crashes if
    ``crashes``."""

    action: str
    task: int = 0
    partition: int = 0
    count: int = 0
    point: str = ""
    crashes: bool = False
    middle: Step | None = None


@dataclass(frozen=True, slots=True)
class History:
    """Records by partition, and steps."""

    logs: list[list[Event]]
    steps: list[Step]


def make_history(number: int, *, steps: int, events: int) -> History:
    """Draws a history; in a run, equal numbers give equal ones."""
    chance = randomness.chance(f"history-{number}")
    logs: list[list[Event]] = [[] for _ in range(PARTITIONS)]
    for i in range(events):
        event = _event(chance, min(i * 4 // events, len(VERSIONS) - 1))
        partition = event.id % PARTITIONS
        logs[partition].append(event)
        if event.op == "d" and chance.random() < 0.7:
            logs[partition].append(Event("tombstone", event.id, {}, event.version))
    return History(logs, [_step(chance, i) for i in range(steps)])


def _event(chance: random.Random, version: int) -> Event:
    # Records of a new schema overlap with those of the one before.
    version = max(0, version - (chance.random() < 0.2))
    id_ = chance.randrange(KEYS)
    kind = chance.random()
    if kind < 0.2:
        return Event("d", id_, {}, version)
    if kind < 0.24:
        return Event("tombstone", id_, {}, version)
    values = {
        "name": chance.choice([None, "näme", 'quo"te', "line\nbreak", "ä" * 50, f"n{chance.randrange(1000)}"]),
        "credit": chance.choice([None, decimal.Decimal(f"{chance.randrange(-(10**30), 10**30)}.{chance.randrange(100):02d}")]),
        "photo": chance.choice([None, chance.randbytes(9), b""]),
        "ratio": chance.choice([None, 0.1, 5e-324, -1.7e308, chance.random()]),
        "level": chance.choice([None, chance.randrange(-5, 5)]),
        "note": chance.choice([None, "note"]),
    }
    row = {f["field"]: values[f["field"]] for f in VERSIONS[version] if f["field"] != "id"}
    op = chance.choice("ucr") if kind < 0.6 else "u"
    unavailable = tuple(name for name in ("name", "photo") if op == "u" and chance.random() < 0.35)
    return Event(op, id_, row, version, unavailable)


def _step(chance: random.Random, number: int) -> Step:
    task = chance.randrange(2)
    if number % 2 == 0:
        return Step("deliver", task, count=chance.randrange(4, 30), partition=chance.randrange(PARTITIONS))
    kind = chance.random()
    if kind < 0.2:
        return Step("deliver", task, count=chance.randrange(1, 12), partition=chance.randrange(PARTITIONS))
    if kind < 0.28:
        return Step("redeliver", task, count=chance.randrange(1, 40), partition=chance.randrange(PARTITIONS))
    if kind < 0.34:
        return Step("rebalance", task, count=chance.randrange(2**PARTITIONS))
    if kind < 0.4:
        return Step("maintain", task, middle=chance.choice([None, Step("commit", task), Step("commit", 1 - task)]))
    if kind < 0.52:
        return _foreign(chance, ("insert", "update", "delete", "optimize", "vacuum"))
    middles = [None, None, Step("commit", 1 - task), _foreign(chance, ("insert", "update", "delete", "optimize"))]
    point = chance.choice(["spark.staged", "spark.staged", "spark.committed"])
    return Step("commit", task, point=point, crashes=chance.random() < 0.3, middle=chance.choice(middles))


def _foreign(chance: random.Random, actions: Sequence[str]) -> Step:
    """What another Spark does; ``count`` chooses the rows."""
    return Step(chance.choice(actions), count=chance.randrange(7))


@dataclass(slots=True)
class Model:
    """What the table has to contain."""

    mode: str
    delete_mode: str = "hard"
    rows: list[Row] = field(default_factory=list)
    """Of an append table."""
    by_id: dict[int, Row] = field(default_factory=dict)
    """Of an upsert table."""
    ends: dict[int, int] = field(default_factory=dict)

    def apply(self, records: Sequence[tuple[int, int, Event]]) -> None:
        """Applies a commit of records (partition, offset, event); skips those that it has."""
        new = [(p, o, e) for p, o, e in records if o >= self.ends.get(p, 0)]
        for partition, offset, event in new:
            if self.mode == "append":
                self.rows.append(_appended(event) | {"__op": event.op, "__partition": partition, "__offset": offset})
            else:
                self._apply_event(event)
            self.ends[partition] = offset + 1

    def _apply_event(self, event: Event) -> None:
        row = self.by_id.get(event.id)
        if event.op in ("c", "r", "u"):
            values = {**event.row, "id": event.id}
            for name in event.unavailable:
                values[name] = None if row is None else row.get(name)
            self.by_id[event.id] = values | ({"__deleted": False} if self.delete_mode == "soft" else {})
        elif event.op in ("d", "tombstone") and self.delete_mode == "hard":
            self.by_id.pop(event.id, None)
        elif event.op in ("d", "tombstone") and self.delete_mode == "soft":
            self.by_id[event.id] = (row or {"id": event.id}) | {"__deleted": True}

    def change_by_others(self, action: str, chosen: int) -> str | None:
        """Applies a statement of another writer, and returns it for the table ``{table}``; None when there is nothing to do."""
        rows = self.rows if self.mode == "append" else list(self.by_id.values())
        if action == "insert":
            absent = [i for i in range(chosen, KEYS, 5) if self.mode == "append" or i not in self.by_id]
            for id_ in absent:
                row = {"id": id_, "name": FOREIGN}
                if self.mode == "append":
                    self.rows.append(row)
                else:
                    self.by_id[id_] = row
            values = ", ".join(f"({id_}, '{FOREIGN}')" for id_ in absent)
            return f"INSERT INTO {{table}} (id, name) VALUES {values}" if absent else None
        is_chosen = f"id % 7 = {chosen}"
        if action == "update":
            for row in rows:
                if isinstance(row["id"], int) and row["id"] % 7 == chosen:
                    row["name"] = FOREIGN
            return f"UPDATE {{table}} SET name = '{FOREIGN}' WHERE {is_chosen}"
        if action == "delete":
            self.rows = [row for row in self.rows if row["id"] is None or row["id"] % 7 != chosen]
            self.by_id = {id_: row for id_, row in self.by_id.items() if id_ % 7 != chosen}
            return f"DELETE FROM {{table}} WHERE {is_chosen}"
        return "OPTIMIZE {table}" if action == "optimize" else "VACUUM {table} RETAIN 0 HOURS"

    def table(self) -> list[Row]:
        return sorted_rows(self.rows if self.mode == "append" else list(self.by_id.values()))


def _appended(event: Event) -> Row:
    values = {**event.row, "id": event.id}
    return values | {name: PLACEHOLDER if name == "name" else PLACEHOLDER.encode() for name in event.unavailable}


def sorted_rows(rows: Sequence[Row]) -> list[Row]:
    """Rows in an order of their own, without nulls, and with exact floats."""
    shown = [{n: v.hex() if isinstance(v, float) else v for n, v in row.items() if v is not None} for row in rows]
    return sorted(shown, key=lambda row: repr(sorted(row.items())))
