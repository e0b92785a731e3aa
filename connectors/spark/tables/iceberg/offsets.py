"""Offsets in the summaries of snapshots (promise 6).

Each snapshot of the sink has the ends of all partitions of every connector, so that older snapshots may expire. The newest
ancestor with a summary of the sink counts; snapshots of other writers in between have none.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.spark.tables.conflicts import HistoryMoved
from connectors.spark.tables.effects import Effect
from connectors.spark.tables.iceberg.types import Json
from connectors.spark.tables.offset_ranges import OffsetRanges

PREFIX = "sluice.offsets."
ORDER_STATE = "sluice.source-order"
COMMIT = "sluice.commit"
RANGES = "sluice.ranges"
WRITER = "sluice.connector."
"""A table property with this prefix and the connector's name: it has committed to the table. The name of a branch other than main
follows after ``@``."""


@dataclass(frozen=True, slots=True)
class TableOffsets:
    """The offsets that a snapshot has: by connector, the ends by their identifiers (:mod:`..application_ids`)."""

    snapshot: int = 0
    """0 if the sink has never committed to the table."""
    ends: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    order_state: int = 0
    """Names what the table knows of the order of changes (``OrderState``); 0 for nothing."""

    def of(self, connector: str) -> Mapping[str, int]:
        return self.ends.get(connector, {})

    def of_all(self) -> dict[str, int]:
        """The ends of all connectors, by identifiers."""
        return {text: end for own in self.ends.values() for text, end in own.items()}

    def is_behind(self, other: TableOffsets, connector: str) -> bool:
        """Whether an end of the connector is before that in the other offsets."""
        own = self.of(connector)
        return any(own.get(identity, -1) < end for identity, end in other.of(connector).items())

    def next_summary(
        self, connector: str, moved: Mapping[str, int], ranges: OffsetRanges | None = None, order_state: int | None = None
    ) -> dict[str, Any]:
        """The part of a commit that moves ends of this connector: its summary, and the snapshot whose offsets must be the newest
        ones until then. ``ranges`` are the offsets of its records; without ``order_state``, that remains."""
        ends = {**self.ends, connector: {**self.of(connector), **moved}}
        summary = {PREFIX + name: _compact(own) for name, own in ends.items()}
        summary[COMMIT] = uuid.uuid4().hex
        if order_state or self.order_state:
            summary[ORDER_STATE] = str(order_state or self.order_state)
        if ranges:
            summary[RANGES] = _compact({str(tp): list(found) for tp, found in ranges.items()})
        return {"summary": summary, "expected": self.snapshot}


def _compact(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"), sort_keys=True)


def find_offsets(history: Iterable[Json]) -> TableOffsets | None:
    """The offsets of the newest snapshot that has some; the history begins with the newest one."""
    for snapshot in history:
        summary: Mapping[str, str] = snapshot["summary"]
        found = {key.removeprefix(PREFIX): value for key, value in summary.items() if key.startswith(PREFIX)}
        if found:
            by_name = {name: json.loads(ends) for name, ends in found.items()}
            return TableOffsets(int(snapshot["id"]), by_name, int(summary.get(ORDER_STATE, 0)))
    return None


def offsets_after(history: Sequence[Json], older: TableOffsets, connector: str) -> TableOffsets:
    """The offsets after these snapshots (the newest one first), before which there were the older ones.

    Offsets from before another writer replaced all rows do not count. No commit may repeat those of other connectors, because
    that would hide the replacement from them. Those of this connector remain, so that they can be refused, or moved over REST.
    """
    for at, snapshot in enumerate(history):
        found = find_offsets([snapshot])
        if found is not None:
            return found
        if _replaces_rows(snapshot):
            before = find_offsets(history[at:]) or older
            own = before.of(connector)
            return replace(before, ends={connector: own} if own else {})
    return older


def names_connector(properties: Iterable[str], history: Iterable[Json], connector: str) -> bool:
    """Whether a table may have offsets of a connector, by its properties and the history of its main branch."""
    mark, offsets = WRITER + connector, find_offsets(history)
    has_mark = any(name == mark or name.startswith(f"{mark}@") for name in properties)
    return has_mark or (offsets is not None and bool(offsets.of(connector)))


_EFFECTS = {"append": Effect.ADDS_ROWS, "replace": Effect.REARRANGES}


def effect_of(snapshot: Json) -> Effect:
    """By the files of the snapshot and by its operation; another one than Iceberg knows today may change rows. The schema is no
    part of snapshots."""
    summary: Mapping[str, str] = snapshot["summary"]
    effect = _EFFECTS.get(str(snapshot["operation"]), Effect.CHANGES_ROWS)
    # INSERT OVERWRITE that left nothing of what was in the table before.
    is_whole = summary.get("total-data-files") == summary.get("added-data-files", "0")
    if summary.get("replace-partitions") == "true" and is_whole and COMMIT not in summary:
        effect |= Effect.MOVES_HISTORY
    return effect


def _replaces_rows(snapshot: Json) -> bool:
    return bool(effect_of(snapshot) & Effect.MOVES_HISTORY)


def refuse_replacement(history: Sequence[Json], older: TableOffsets, connector: str, place: str) -> None:
    """Raises HistoryMoved when another writer has replaced all rows, and with them those of the connector, in one of these
    snapshots, before which there were the older offsets."""
    for at, snapshot in enumerate(history):
        if _replaces_rows(snapshot) and (find_offsets(history[at:]) or older).of(connector):
            raise HistoryMoved(
                f"{place}: another writer replaced the table's rows ({snapshot['operation']}) in snapshot {snapshot['id']}, so "
                "the connector's offsets no longer say what the table contains. Stop the connector, set its offsets over REST to "
                "what the table contains (PATCH /connectors/<name>/offsets) or delete them to load all records again, and resume "
                "it"
            )


def refuse_lost(connector: str, place: str) -> None:
    """Raises HistoryMoved for a table that has lost the connector's offsets."""
    raise HistoryMoved(
        f"{place} has rows of connector {connector}, but the snapshots with its offsets have expired or were rolled back, or "
        "another writer has replaced the rows. Stop the connector, set its offsets over REST to what the table contains (PATCH "
        "/connectors/<name>/offsets), and resume it"
    )
