"""Histories of a source's table, and how their changes may arrive: in any order, and repeatedly."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Event:
    """A change at a place in the source's log. Rows of a snapshot have a place in it, too, and no commit."""

    op: str
    id: int | None
    at: int
    value: str | None = None

    @property
    def _commit(self) -> int:
        """The end of the commit before; 0 if there was none."""
        return 0 if self.op == "r" else self.at // 2

    @property
    def position(self) -> str | None:
        """The position that the sink decodes."""
        return None if self.op == "tombstone" else f"{self._commit:020d}.{self.at:020d}"

    def key(self) -> bytes | None:
        return None if self.id is None else json.dumps({"id": self.id}).encode()

    def message(self) -> bytes | None:
        """The change event as JSON without a schema, as the PostgreSQL source writes it."""
        if self.op == "tombstone":
            return None
        image = {"id": self.id, "v": self.value}
        sequence = json.dumps([str(self._commit) if self._commit else None, str(self.at)])
        source = {"ts_ms": self.at, "table": "t", "lsn": self.at, "sequence": sequence}
        before, after = image if self.op == "d" else None, image if self.op in ("c", "u", "r") else None
        return json.dumps({"before": before, "after": after, "source": source, "op": self.op}).encode()


def make_history(chance: random.Random, changes: int = 12) -> list[Event]:
    """Few keys with many changes, some of them in a snapshot, which an open transaction may have written before."""
    at = chance.randrange(6)
    events = [Event("r", id_, at, f"r{id_}") for id_ in range(3) if chance.random() < 0.5]
    for number in range(1, chance.randint(2, changes)):
        op = chance.choices("cudt", (3, 3, 4, 1))[0]
        id_ = None if op == "t" else chance.randrange(3)
        events.append(Event(op, id_, number, f"v{number}" if op in "cu" else None))
    return events


def make_arrival(events: list[Event], chance: random.Random) -> list[Event]:
    """The events in any order, some of them repeated; tombstones follow their deletes."""
    arrival = [*events, *chance.choices(events, k=chance.randrange(4))] if events else []
    chance.shuffle(arrival)
    return [one for e in arrival for one in ([e, Event("tombstone", e.id, e.at)] if e.op == "d" else [e])]


def apply_in_order(events: Sequence[Event], *, deletes: bool = True) -> dict[int, str | None]:
    """The rows that the history gives in its own order."""
    found: dict[int, str | None] = {}
    for event in sorted(events, key=lambda e: (e.op != "r", e.at)):
        if event.op == "t":
            if deletes:
                found.clear()
        elif event.op == "d":
            if deletes:
                found.pop(event.id or 0, None)
        elif event.op != "tombstone":
            found[event.id or 0] = event.value
    return found
