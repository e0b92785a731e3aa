"""Reads the hashes of the rows of both sides, from texts and Arrow columns as far as these tell, else from the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from connect.text_records import TextRecords
from connect.verification import ColumnarTargetTable, SourceRows, SourceSnapshot, SourceTable
from sluice.verify.arrow_hashes import hash_array
from sluice.verify.canonical import ColumnForms, Form
from sluice.verify.row_hashes import Hashes, combine, hash_forms
from sluice.verify.table_rows import FormRows, TableReader
from sluice.verify.text_plan import SlowRowsError, TextPlan, plan_texts

_BLOCKS_FOR_KEYS = 3
"""So many blocks of a table are read as records, until it is known which of its columns are those of the target's key."""


@dataclass(frozen=True, slots=True)
class HashedRows:
    """Hashes of the keys of rows, and of the rows; only the former where only they were wanted. ``select`` returns rows by their
    places."""

    keys: Hashes
    rows: Hashes
    select: Callable[[Sequence[int]], Iterable[FormRows]]


class RowHasher:
    """Hashes the rows of one table."""

    def __init__(self, reader: TableReader) -> None:
        self._reader = reader
        self._plans: dict[int, tuple[object, TextPlan | None]] = {}
        """By the identity of a template, which is kept alive."""

    def expected(self, snapshot: SourceSnapshot, *, only_keys: bool = False) -> Iterator[HashedRows]:
        """Yields all rows that the target should have."""
        for table in self._reader.plan.sources:
            blocks = 0
            for rows in snapshot.rows(table.name):
                blocks += 1
                may_be_fast = self._reader.knows_key(table) or blocks > _BLOCKS_FOR_KEYS
                hashed = self._of_texts(table, rows, only_keys) if may_be_fast else None
                if hashed is not None:
                    yield hashed
                    continue
                for found in self._reader.expected(table, [rows]):
                    yield self._of_forms(found, only_keys)

    def actual(self, *, only_keys: bool = False) -> Iterator[HashedRows]:
        """Yields all rows that the target has."""
        target = self._reader.target
        if isinstance(target, ColumnarTargetTable):
            yield from self._of_batches(target, only_keys)
            return
        for found in self._reader.actual():
            yield self._of_forms(found, only_keys)

    def _combined(self, columns: Sequence[Hashes], only_keys: bool) -> tuple[Hashes, Hashes]:
        keys = combine(columns[: self._reader.plan.key_size])
        return keys, keys if only_keys else combine(columns)

    def _of_forms(self, rows: FormRows, only_keys: bool) -> HashedRows:
        forms = rows.forms[: self._reader.plan.key_size] if only_keys else rows.forms
        hashes = self._combined([hash_forms(column) for column in forms], only_keys)
        return HashedRows(*hashes, lambda places: [rows.select(places)])

    # --- texts of the source

    def _of_texts(self, table: SourceTable, rows: SourceRows, only_keys: bool) -> HashedRows | None:
        """None if only the records tell."""
        records, select = rows.records, rows.select
        if select is None or not isinstance(records, TextRecords):
            return None
        plan = self._plan(records)
        if plan is None:
            return None
        try:
            columns = plan.hashes(records, self._reader.forms_of, self._reader.plan.key_size if only_keys else None)
        except SlowRowsError:
            return None
        hashes = self._combined(columns, only_keys)
        return HashedRows(*hashes, lambda places: self._reader.expected(table, [select(places)]))

    def _plan(self, records: TextRecords) -> TextPlan | None:
        known = self._plans.get(id(records.value))
        if known is None:
            reader = self._reader
            found = plan_texts(records, reader.path, reader.sink, reader.plan.target, reader.columns, reader.plan.key_size)
            known = self._plans[id(records.value)] = records.value, found
        return known[1]

    # --- columns of the target

    def _of_batches(self, target: ColumnarTargetTable, only_keys: bool) -> Iterator[HashedRows]:
        reader = self._reader
        present = reader.present_columns
        forms = {name: reader.forms_of(name, reader.plan.schemas.get(name)) for name in present}
        names = reader.key_names if only_keys else reader.columns
        for batch in target.record_batches(present):
            count = batch.num_rows
            columns = []
            for name in names:
                if name not in forms:
                    columns.append(hash_forms([None] * count))
                    continue
                array = batch.column(present.index(name))
                columns.append(hash_array(array, forms[name].kind, _forms_of_array(target, forms[name], array)))

            def select(places: Sequence[int], batch: Any = batch) -> Iterable[FormRows]:
                chosen = batch.take(places)
                values = {name: target.python_values(chosen.column(at)) for at, name in enumerate(present)}
                return [reader.actual_of(values)]

            yield HashedRows(*self._combined(columns, only_keys), select)


def _forms_of_array(target: ColumnarTargetTable, forms: ColumnForms, array: Any) -> Callable[[Sequence[int]], Sequence[Form]]:
    def some(places: Sequence[int]) -> Sequence[Form]:
        chosen = array if len(places) == len(array) else array.take(places)
        return forms.of_actual(target.python_values(chosen))

    return some
