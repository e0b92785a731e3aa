"""From the changes of a table, in their order, to as few statements as have the same result."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connectors.jdbc.options import InsertMode
from connectors.jdbc.sink.row_changes import Operation, Row, RowChanges, RowShape


@dataclass(frozen=True, slots=True)
class StatementRows:
    """Rows for one statement."""

    shape: RowShape
    rows: Sequence[Row]


def group_by_table(changes: Iterable[RowChanges]) -> Iterator[list[RowChanges]]:
    """The changes of each table, in their order; tables in the order in which they come up."""
    tables: dict[Any, list[RowChanges]] = {}
    for one in changes:
        tables.setdefault(one.shape.table, []).append(one)
    return iter(tables.values())


def split_batches(changes: Iterable[RowChanges], most: int) -> Iterator[list[RowChanges]]:
    """The changes in portions of so many records at most."""
    portion: list[RowChanges] = []
    room = most
    for one in changes:
        first = 0
        while first < len(one):
            part = one if len(one) <= room and first == 0 else one.part(first, first + room)
            portion.append(part)
            first += len(part)
            room -= len(part)
            if room == 0:
                yield portion
                portion, room = [], most
    if portion:
        yield portion


def split_in_halves(portion: Sequence[RowChanges]) -> tuple[list[RowChanges], list[RowChanges]]:
    """The first and the second half of two records or more."""
    parts = split_batches(portion, (sum(map(len, portion)) + 1) // 2)
    return next(parts), next(parts)


def plan_statements(portion: Sequence[RowChanges], mode: InsertMode) -> Iterator[StatementRows]:
    """Statements that have the result of the changes one after the other.

    Inserts keep every row in its place. Of upserts and updates the last row of a key counts: the rows of all keys that are
    deleted somewhere go first, then those are written whose last change is no delete. So no statement meets a key twice.
    """
    run: list[RowChanges] = []
    for one in portion:
        if one.shape.operation is Operation.TRUNCATE:
            yield from _steps(run, mode)
            yield StatementRows(one.shape, one.rows[:1])
            run = []
        else:
            run.append(one)
    yield from _steps(run, mode)


def _steps(run: Sequence[RowChanges], mode: InsertMode) -> Iterator[StatementRows]:
    if mode is not InsertMode.INSERT and all(one.shape.key_names for one in run):
        return _reduced(run)
    return _in_order(run)


def _in_order(run: Sequence[RowChanges]) -> Iterator[StatementRows]:
    at = 0
    while at < len(run):
        shape = run[at].shape
        end = at + 1
        while end < len(run) and run[end].shape is shape:
            end += 1
        yield StatementRows(shape, run[at].rows if end == at + 1 else [row for one in run[at:end] for row in one.rows])
        at = end


class _Window:
    """Changes that need one delete and one write a shape. No key is written in two shapes."""

    def __init__(self, key_names: tuple[str, ...]) -> None:
        self.key_names = key_names
        self.deletes: dict[RowShape, dict[Hashable, Row]] = {}
        self.writes: dict[RowShape, dict[Hashable, Row]] = {}

    def takes(self, shape: RowShape, rows: dict[Hashable, Row]) -> bool:
        if shape.key_names != self.key_names:
            return False
        if shape.operation is Operation.DELETE:
            return True
        # A row of other columns for a key: what the earlier one sets has to stay.
        return all(other is shape or rows.keys().isdisjoint(written) for other, written in self.writes.items())

    def add(self, shape: RowShape, rows: dict[Hashable, Row]) -> None:
        if shape.operation is Operation.WRITE:
            self.writes.setdefault(shape, {}).update(rows)
            return
        self.deletes.setdefault(shape, {}).update(rows)
        for written in self.writes.values():
            for key in rows.keys() & written.keys():
                del written[key]

    def plan_statements(self) -> Iterator[StatementRows]:
        for shape, rows in (*self.deletes.items(), *self.writes.items()):
            if rows:
                yield StatementRows(shape, list(rows.values()))


def _reduced(run: Sequence[RowChanges]) -> Iterator[StatementRows]:
    window = _Window(run[0].shape.key_names if run else ())
    for one in run:
        rows = dict(zip(one.shape.keys(one.rows), one.rows, strict=True))
        if not window.takes(one.shape, rows):
            yield from window.plan_statements()
            window = _Window(one.shape.key_names)
        window.add(one.shape, rows)
    yield from window.plan_statements()
