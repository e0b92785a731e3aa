"""Reads the rows of both sides of one table in the form in which they are compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.data.schema import Schema
from connect.record import SinkRecord, SourceRecord
from connect.verification import (
    ColumnType,
    ExpectedRows,
    Key,
    KeyFilter,
    SourceRows,
    SourceTable,
    TargetRows,
    TargetTable,
    VerifiableSink,
    VerifiableSource,
)
from sluice.verify.canonical import ColumnForms, Form, column_forms, text_of_time
from sluice.verify.record_path import RecordPath

FormKey = tuple[Form, ...]
_INTEGER, _TEXT = "integer", "text"


@dataclass(frozen=True, slots=True)
class FormRows:
    """Rows in columns, those of the key first. ``values`` are the columns as their side has them, for people."""

    forms: Sequence[Sequence[Form]]
    values: Sequence[Sequence[Any]]
    source_table: str = ""
    source_keys: Sequence[Key] = ()
    """Empty for the target."""
    versions: Sequence[str | None] = ()

    def select(self, places: Sequence[int]) -> FormRows:
        """Returns some of the rows."""
        forms, values = ([[column[place] for place in places] for column in one] for one in (self.forms, self.values))
        keys = [self.source_keys[place] for place in places] if self.source_keys else ()
        versions = [self.versions[place] for place in places] if self.versions else ()
        return FormRows(forms, values, self.source_table, keys, versions)


@dataclass(slots=True)
class TablePlan:
    """How a table of the target is compared with the tables of the source that it is written from."""

    sources: list[SourceTable]
    target: str
    columns: tuple[str, ...]
    """Those of the key first."""
    key_size: int
    schemas: dict[str, Schema | None]
    topics: set[str]
    """The topics of its records in Kafka."""
    varying: frozenset[str]
    """Columns whose values depend on the event, not on the row."""
    notes: list[str] = field(default_factory=list)


def plan_table(table: SourceTable, source: VerifiableSource, path: RecordPath, sink: VerifiableSink) -> TablePlan | str:
    """Plans a table by an example of its records, or returns why it cannot be compared."""
    if not table.key:
        return "the table has no key"
    record = source.example(table.name)
    topics: set[str] = set()
    first = _expect_one(path, sink, record, 0, topics)
    second = _expect_one(path, sink, source.vary(record), 1, topics)
    if isinstance(first, str):
        return first
    if not first.key:
        return f"the sink keeps no single row per key in {first.table}"
    varying = frozenset() if isinstance(second, str) else _varying(first, second)
    if lost := varying & set(first.key):
        return f"the key column {min(lost)} depends on the event, not on the row"
    others = [name for name in first.columns if name not in first.key and name not in varying]
    notes = [*table.notes, *(f"column {name} depends on the event, so it is not compared" for name in sorted(varying))]
    columns = (*first.key, *others)
    schemas = {name: schema for name, (schema, _) in first.columns.items()}
    return TablePlan([table], first.table, columns, len(first.key), schemas, topics, varying, notes)


def _expect_one(
    path: RecordPath, sink: VerifiableSink, record: SourceRecord, offset: int, topics: set[str]
) -> ExpectedRows | str:
    (converted,) = path.run([record], offset=offset)
    if converted is None:
        return "a transformation drops its rows"
    if not isinstance(converted, SinkRecord):
        return f"its rows fail on their way: {converted.message}"
    topics.add(converted.original_topic)
    found = sink.expect([converted])
    return found[0] if found else "the sink does not write its rows"


def _varying(first: ExpectedRows, second: ExpectedRows) -> frozenset[str]:
    empty: tuple[None, Sequence[Any]] = (None, (None,))
    names = {**first.columns, **second.columns}
    return frozenset(name for name in names if first.columns.get(name, empty)[1][0] != second.columns.get(name, empty)[1][0])


class TableReader:
    """Reads the rows of both sides. Counts rows that the pipeline does not write."""

    def __init__(self, plan: TablePlan, path: RecordPath, sink: VerifiableSink, target: TargetTable) -> None:
        self.plan = plan
        self.path = path
        self.sink = sink
        self._forms: dict[tuple[str, int], tuple[Schema | None, ColumnForms]] = {}
        self.dropped = 0
        self.failed = 0
        self.first_failure: str | None = None
        self.elsewhere = 0
        """Rows that the sink writes to other tables than planned."""
        self.unwritten: set[tuple[str, Key]] = set()
        """Tables and keys of rows that the pipeline does not write, so that the target may have an older row, or none."""
        self._key_places: dict[str, tuple[int, ...] | None] = {}
        self.columns: tuple[str, ...] = ()
        self.use(target)

    def use(self, target: TargetTable) -> None:
        """Reads another version of the target from now on."""
        self.target = target
        self._forms.clear()
        found = list(self.plan.columns[: self.plan.key_size])
        notes = []
        for name in self.plan.columns[self.plan.key_size :]:
            if name not in target.columns and self.sink.ignores_missing_columns:
                notes.append(f"column {name} is not in the table, and schema.evolution leaves it out")
            elif not self.forms_of(name, self.plan.schemas.get(name)).is_comparable:
                notes.append(f"column {name} is not compared: its types have no common form")
            else:
                found.append(name)
        self.columns = tuple(found)
        self.notes = notes

    @property
    def key_names(self) -> tuple[str, ...]:
        return self.plan.columns[: self.plan.key_size]

    def forms_of(self, name: str, schema: Schema | None) -> ColumnForms:
        """Returns how values of a column are compared, if they have this schema."""
        place = (name, id(schema))
        known = self._forms.get(place)
        if known is None or known[0] is not schema:
            type_ = self.target.columns.get(name, ColumnType.ANY)
            known = self._forms[place] = schema, column_forms(schema, type_, negative_zero=self.sink.negative_zero)
        return known[1]

    def kind_of(self, name: str) -> str:
        """Returns in which form the values of a column are compared."""
        return self.forms_of(name, self.plan.schemas.get(name)).kind

    # --- the source

    def expected(self, table: SourceTable, batches: Iterable[SourceRows]) -> Iterator[FormRows]:
        """Yields the rows that the target should have."""
        for rows in batches:
            converted = self.path.run(rows.records)
            good: list[SinkRecord] = []
            places: list[int] = []
            for place, record in enumerate(converted):
                if isinstance(record, SinkRecord):
                    good.append(record)
                    places.append(place)
                else:
                    self._count_unwritten((table.name, rows.keys[place]), record)
            if good:
                yield from self._expected_rows(table, rows, good, places)

    def _count_unwritten(self, row: tuple[str, Key], failure: Any) -> None:
        self.unwritten.add(row)
        if failure is None:
            self.dropped += 1
            return
        self.failed += 1
        self.first_failure = self.first_failure or str(failure.message)

    def _expected_rows(
        self, table: SourceTable, rows: SourceRows, good: Sequence[SinkRecord], places: Sequence[int]
    ) -> Iterator[FormRows]:
        written = 0
        for expected in self.sink.expect(good):
            written += len(expected.records)
            if expected.table != self.plan.target:
                self.elsewhere += len(expected.records)
                continue
            found = self._expected_forms(expected)
            origin = [places[index] for index in expected.records]
            keys = [rows.keys[place] for place in origin]
            if table.name not in self._key_places:
                self._match_keys(table, found[0][: self.plan.key_size], keys)
            yield FormRows(*found, table.name, keys, [rows.versions[place] for place in origin])
        self.dropped += len(good) - written

    def expected_of(self, records: Sequence[SinkRecord]) -> Iterator[FormRows]:
        """Yields the rows of the table that the sink has after it has written records."""
        for expected in self.sink.expect(records):
            if expected.table == self.plan.target:
                yield FormRows(*self._expected_forms(expected))

    def _expected_forms(self, expected: ExpectedRows) -> tuple[list[list[Form]], list[Sequence[Any]]]:
        forms: list[list[Form]] = []
        values: list[Sequence[Any]] = []
        for name in self.columns:
            schema, column = expected.columns.get(name, (None, [None] * len(expected.records)))
            forms.append(self.forms_of(name, schema).of_expected(column))
            values.append(column)
        return forms, values

    # --- the target

    def actual(self, only: KeyFilter | None = None) -> Iterator[FormRows]:
        """Yields the rows that the target has."""
        for batch in self.target.rows(self.present_columns, only):
            yield self.actual_of(batch)

    @property
    def present_columns(self) -> list[str]:
        """The columns that are compared, as far as the target has them."""
        return [name for name in self.columns if name in self.target.columns]

    def actual_of(self, batch: TargetRows) -> FormRows:
        """The rows of a batch of the target."""
        nothing: list[Form] = [None] * len(next(iter(batch.values())))
        forms = [
            self.forms_of(name, self.plan.schemas.get(name)).of_actual(batch[name]) if name in batch else nothing
            for name in self.columns
        ]
        return FormRows(forms, [batch.get(name, nothing) for name in self.columns])

    def rows_of(self, keys: Sequence[FormKey]) -> Iterator[FormRows]:
        """Yields the rows of the target that have one of these keys, and perhaps others."""
        values, kind = {key[0] for key in keys}, self.kind_of(self.columns[0])
        numbers = [value for value in values if isinstance(value, int)]
        texts = [value for value in values if isinstance(value, str)]
        only = None
        if kind == _INTEGER and len(numbers) == len(values):
            only = KeyFilter(self.columns[0], numbers)
        elif kind == _TEXT and len(texts) == len(values):
            only = KeyFilter(self.columns[0], texts)
        yield from self.actual(only)

    # --- keys

    def _match_keys(self, table: SourceTable, forms: Sequence[Sequence[Form]], keys: Sequence[Key]) -> None:
        """Finds by example which column of the target's key is which column of the source's."""
        found: list[int] = []
        for name, column in zip(self.key_names, forms, strict=True):
            actual = self.forms_of(name, self.plan.schemas.get(name)).actual
            matching = [
                place
                for place in range(len(keys[0]))
                if place not in found and all(actual(key[place]) == form for key, form in zip(keys, column, strict=True))
            ]
            if len(matching) > 1:
                matching = [place for place in matching if table.key[place] == name]
                if not matching:
                    return  # several columns have the same values so far
            if not matching:
                break
            found.append(matching[0])
        self._key_places[table.name] = tuple(found) if len(found) == len(keys[0]) == self.plan.key_size else None

    def knows_key(self, table: SourceTable) -> bool:
        """Whether rows of a source table have told which column of the target's key is which."""
        return table.name in self._key_places

    def source_key(self, table: SourceTable, key: FormKey) -> Key | None:
        """Returns the key of the source for a row of the target; None if it cannot be derived."""
        places = self._key_places.get(table.name)
        if table.name not in self._key_places and set(table.key) == set(self.key_names):  # the table may be empty
            places = tuple(table.key.index(name) for name in self.key_names)
        if places is None:
            return None
        texts: list[str] = [""] * len(places)
        for place, name, form in zip(places, self.key_names, key, strict=True):
            text = source_text(self.kind_of(name), form)
            if text is None:
                return None
            texts[place] = text
        return tuple(texts)


def source_text(kind: str, form: Form) -> str | None:
    """Returns a key in its form as a text that the source's database understands; None if there is none."""
    if form is None or (isinstance(form, str) and form.startswith("\0")):
        return None
    match kind:
        case "integer" | "decimal" | "text" | "boolean":
            return str(form)
        case "bytes":
            return f"\\x{form}"
        case "date" | "timestamp" if isinstance(form, int):
            text = text_of_time(kind, form)
            return None if text.startswith("-") or text[4:5] != "-" else text
    return None


def merge_plans(plans: Iterable[TablePlan]) -> list[TablePlan]:
    """Combines the plans of source tables that are written to the same table."""
    merged: dict[str, TablePlan] = {}
    for plan in plans:
        known = merged.setdefault(plan.target, plan)
        if known is plan:
            continue
        known.sources += plan.sources
        known.notes += [note for note in plan.notes if note not in known.notes]
        known.varying |= plan.varying
        known.topics |= plan.topics
        key = known.columns[: known.key_size]
        others = dict.fromkeys(name for name in (*known.columns, *plan.columns) if name not in key and name not in known.varying)
        known.columns = (*key, *others)
        known.schemas = {**plan.schemas, **known.schemas}
    return list(merged.values())


def columns_of(types: Mapping[str, ColumnType], plan: TablePlan) -> list[str]:
    """Returns the columns of the target that the source does not write."""
    return sorted(set(types) - set(plan.columns) - plan.varying)
