"""Combines the changes of a table into as few statements as have the same result."""

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
    """Yields the changes of each table in order; tables in the order of their first change."""
    tables: dict[Any, list[RowChanges]] = {}
    for one in changes:
        tables.setdefault(one.shape.table, []).append(one)
    return iter(tables.values())


def split_batches(changes: Iterable[RowChanges], max_records: int) -> Iterator[list[RowChanges]]:
    """Splits changes into batches of at most ``max_records``."""
    batch: list[RowChanges] = []
    room = max_records
    for one in changes:
        first = 0
        while first < len(one):
            part = one if len(one) <= room and first == 0 else one.part(first, first + room)
            batch.append(part)
            first += len(part)
            room -= len(part)
            if room == 0:
                yield batch
                batch, room = [], max_records
    if batch:
        yield batch


def split_in_halves(batch: Sequence[RowChanges]) -> list[list[RowChanges]]:
    """Both halves of a batch; nothing for a single record."""
    records = sum(map(len, batch))
    return list(split_batches(batch, (records + 1) // 2)) if records > 1 else []


def plan_statements(batch: Sequence[RowChanges], mode: InsertMode) -> Iterator[StatementRows]:
    """Yields statements that have the same result as the changes one by one.

    Inserts keep every row in order. For upserts and updates, the last row of a key counts: first the rows of all keys that any
    change deletes are deleted, then the keys whose last change is not a delete are written. So no statement has a key twice.
    """
    run: list[RowChanges] = []
    for one in batch:
        if one.shape.operation is Operation.TRUNCATE:
            yield from _plan_run(run, mode)
            yield StatementRows(one.shape, one.rows[:1])
            run = []
        else:
            run.append(one)
    yield from _plan_run(run, mode)


def _plan_run(run: Sequence[RowChanges], mode: InsertMode) -> Iterator[StatementRows]:
    if mode is not InsertMode.INSERT and all(one.shape.key_names for one in run):
        return _reduce(run)
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


class _MergedChanges:
    """Changes that need one delete and one write per shape. No key is written in two shapes."""

    def __init__(self, key_names: tuple[str, ...]) -> None:
        self.key_names = key_names
        self.deletes: dict[RowShape, dict[Hashable, Row]] = {}
        self.writes: dict[RowShape, dict[Hashable, Row]] = {}

    def accepts(self, shape: RowShape, rows: dict[Hashable, Row]) -> bool:
        if shape.key_names != self.key_names:
            return False
        if shape.operation is Operation.DELETE:
            return True
        # A row with other columns of the same key would overwrite the columns that the earlier row sets.
        return all(other is shape or rows.keys().isdisjoint(written) for other, written in self.writes.items())

    def add(self, shape: RowShape, rows: dict[Hashable, Row]) -> None:
        if shape.operation is Operation.WRITE:
            self.writes.setdefault(shape, {}).update(rows)
            return
        self.deletes.setdefault(shape, {}).update(rows)
        for written in self.writes.values():
            for key in rows.keys() & written.keys():
                del written[key]

    def statements(self) -> Iterator[StatementRows]:
        for shape, rows in (*self.deletes.items(), *self.writes.items()):
            if rows:
                yield StatementRows(shape, list(rows.values()))


def _reduce(run: Sequence[RowChanges]) -> Iterator[StatementRows]:
    merged = _MergedChanges(run[0].shape.key_names if run else ())
    for one in run:
        rows = dict(zip(one.shape.keys(one.rows), one.rows, strict=True))
        if not merged.accepts(one.shape, rows):
            yield from merged.statements()
            merged = _MergedChanges(one.shape.key_names)
        merged.add(one.shape, rows)
    yield from merged.statements()
