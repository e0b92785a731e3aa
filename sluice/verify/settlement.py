"""Decides which rows really differ, while both sides change.

A round compares rows of the target with the source before and after it:

1. A snapshot of the source at position X.
2. A version of the target that has everything up to X, and perhaps more.
3. A second snapshot, at X'. It is the first one of the next round.

A row that the target has as in the first snapshot is equal. A row that differs, and that nobody has changed between both
snapshots, really differs: the target had every change of it that there was. A row that was changed is examined again in the next
round.

Two things could look like that although nothing is wrong. A transaction may be in the log, and so in the target, and not yet
visible to snapshots: it still holds its lock then, so a difference counts only when all transactions have ended that held one. A
row may be inserted and deleted again between two snapshots, which leaves no trace: a row that only the target has counts only
when it was there in several rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.verification import Key, SourceRows, SourceSnapshot
from sluice.verify.canonical import Form, text_of_time
from sluice.verify.model import Difference, DifferenceKind
from sluice.verify.table_rows import FormKey, TableReader

ABSENT_ROUNDS = 3
"""Rounds in which a row must be seen that the source does not have."""

_Row = tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A row as the source has it; ``values`` are for people."""

    row: _Row
    values: Sequence[Any]
    version: str | None


@dataclass(slots=True)
class OpenRow:
    """A row that is not settled yet."""

    key: FormKey
    source: tuple[str, Key] | None = None
    """Table and key in the source, if the source has had the row."""
    before: SourceRow | None = None
    """As of the first snapshot of the round."""
    earlier: SourceRow | None = None
    """As of the first snapshot of the last round, if it was another row then."""
    actual: list[_Row] = field(default_factory=list)
    """The rows of the target."""
    actual_values: Sequence[Any] = ()
    seen: tuple[object, ...] | None = None
    """State of both sides in the rounds before, if it is a difference."""
    rounds: int = 0
    """Rounds in which the state was the same."""
    suspects: frozenset[str] = frozenset()
    """Transactions that may explain the difference."""


@dataclass(slots=True)
class RoundResult:
    """What a round has settled."""

    unavailable: int = 0
    differences: list[Difference] = field(default_factory=list)


class Settlement:
    """The open rows of one table, from round to round."""

    def __init__(
        self, reader: TableReader, keys: Iterable[tuple[FormKey, tuple[str, Key] | None]], placeholders: frozenset[str]
    ) -> None:
        self._reader = reader
        self._placeholders = placeholders
        self.open = {key: OpenRow(key, source) for key, source in keys}

    def read_before(self, snapshot: SourceSnapshot) -> None:
        """Step 1: reads the rows of the source."""
        found = self._read_source(snapshot)
        for key, one in self.open.items():
            one.before = found.get(key)

    def read_target(self) -> None:
        """Step 2: reads the rows of the target. The reader must use a version that has everything of the first snapshot."""
        for one in self.open.values():
            one.actual, one.actual_values = [], ()
        if not self.open:
            return
        size = self._reader.plan.key_size
        for batch in self._reader.rows_of(list(self.open)):
            for place, row in enumerate(zip(*batch.forms, strict=True)):
                known = self.open.get(row[:size])
                if known is not None:
                    known.actual.append(row)
                    known.actual_values = [column[place] for column in batch.values]

    def close_equal(self) -> None:
        """Forgets rows that are equal, and those that the pipeline does not write."""
        for key in [key for key, one in self.open.items() if self._is_equal(one) or self._is_unwritten(one)]:
            del self.open[key]

    def _is_equal(self, one: OpenRow) -> bool:
        if one.before is None:
            return not one.actual
        return one.actual == [one.before.row]

    def _is_unwritten(self, one: OpenRow) -> bool:
        return one.before is None and any(row in self._reader.unwritten for row in self._source_keys(one))

    def read_after(self, snapshot: SourceSnapshot) -> RoundResult:
        """Step 3: reads the rows of the source again, and decides. Rows that remain have their state for the next round."""
        result = RoundResult()
        found = self._read_source(snapshot)
        tables = [table.name for table in self._reader.plan.sources]
        writers = frozenset().union(*(snapshot.writers(table) for table in tables))
        for key, one in list(self.open.items()):
            after = found.get(key)
            if not _is_same(one.before, after):
                one.seen, one.rounds, one.suspects = None, 0, frozenset()
                one.earlier, one.before = one.before, after
                continue
            state = (one.before and (one.before.row, one.before.version), tuple(one.actual))
            if state == one.seen:
                one.rounds += 1
                one.suspects &= writers
            else:
                one.seen, one.rounds, one.suspects = state, 1, writers
            one.before = after
            has_versions = one.before is not None and one.before.version is not None
            if one.suspects or one.rounds < (1 if has_versions else ABSENT_ROUNDS):
                continue
            del self.open[key]
            difference = self._describe(one)
            if difference is None:
                result.unavailable += 1
            else:
                result.differences.append(difference)
        return result

    def explain(self, versions: Mapping[FormKey, Sequence[_Row | None]]) -> RoundResult:
        """Decides rows by the versions that they have had since before the first snapshot of the round. The target has one of
        them, and a row that is none of them differs."""
        result = RoundResult()
        for key, known in versions.items():
            one = self.open.get(key)
            if one is None or len(one.actual) > 1:
                continue
            actual = one.actual[0] if one.actual else None
            rows = [None if state is None else state.row for state in (one.earlier, one.before)]
            latest = rows[0]
            for version in known:
                latest = self._complete(version, latest)
                rows.append(latest)
            del self.open[key]
            if actual not in rows and (difference := self._describe(one)) is not None:
                result.differences.append(difference)
        return result

    def _complete(self, version: _Row | None, older: _Row | None) -> _Row | None:
        """A version with the values of an older one in place of placeholders for unavailable values."""
        if version is None or older is None:
            return version
        return tuple(old if new in self._placeholders else new for new, old in zip(version, older, strict=True))

    # --- the source

    def _read_source(self, snapshot: SourceSnapshot) -> dict[FormKey, SourceRow]:
        reader = self._reader
        found: dict[FormKey, SourceRow] = {}
        size = reader.plan.key_size
        for table in reader.plan.sources:
            keys: dict[Key, None] = {}
            scans = False
            for one in self.open.values():
                if one.source is not None and one.source[0] == table.name:
                    keys[one.source[1]] = None
                elif one.source is None:
                    key = reader.source_key(table, one.key)
                    scans = scans or key is None
                    if key is not None:
                        keys[key] = None
            batches: Iterable[SourceRows] = snapshot.rows(table.name) if scans else snapshot.rows_of(table.name, list(keys))
            for batch in reader.expected(table, batches):
                for place, row in enumerate(zip(*batch.forms, strict=True)):
                    known = self.open.get(row[:size])
                    if known is not None:
                        known.source = table.name, batch.source_keys[place]
                        found[row[:size]] = SourceRow(row, [column[place] for column in batch.values], batch.versions[place])
        return found

    def _source_keys(self, one: OpenRow) -> list[tuple[str, Key]]:
        if one.source is not None:
            return [one.source]
        found = [(table.name, self._reader.source_key(table, one.key)) for table in self._reader.plan.sources]
        return [(table, key) for table, key in found if key is not None]

    # --- differences

    def _describe(self, one: OpenRow) -> Difference | None:
        """The difference of a row; None if it consists of placeholders for unavailable values only."""
        names = self._reader.columns
        size = self._reader.plan.key_size
        values = one.before.values if one.before is not None else one.actual_values
        shown = zip(names[:size], one.key, values, strict=False)
        key = {name: str(show(self._reader.kind_of(name), form, value)) for name, form, value in shown}
        source_keys = self._source_keys(one)
        table, source_key = source_keys[0] if source_keys else (self._reader.plan.sources[0].name, None)
        if one.before is None:
            return Difference(DifferenceKind.EXTRA, key, {}, table, source_key)
        if not one.actual:
            return Difference(DifferenceKind.MISSING, key, {}, table, source_key)
        if len(one.actual) > 1:
            return Difference(DifferenceKind.DUPLICATE, key, {}, table, source_key)
        columns: dict[str, tuple[str | None, str | None]] = {}
        row = one.actual[0]
        for place, name in enumerate(names):
            if one.before.row[place] == row[place] or row[place] in self._placeholders:
                continue
            kind = self._reader.kind_of(name)
            expected = show(kind, one.before.row[place], one.before.values[place])
            columns[name] = expected, show(kind, row[place], one.actual_values[place])
        return Difference(DifferenceKind.CHANGED, key, columns, table, source_key) if columns else None


def _is_same(before: SourceRow | None, after: SourceRow | None) -> bool:
    if before is None or after is None:
        return before is after
    return before.version == after.version and before.row == after.row


_MOST_SHOWN = 200
_TIMES = ("date", "time", "timestamp")


def show(kind: str, form: Form, value: Any) -> str | None:
    """Returns a value for people: text as it is, times in ISO 8601, bytes in hexadecimal, long values cut."""
    if value is None:
        return None
    if kind in _TIMES and isinstance(form, int):
        value = text_of_time(kind, form)
    text = value if isinstance(value, str) else f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}... ({len(text)} characters)"
