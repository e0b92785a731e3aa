"""Renders a compiled chain as the SELECT expressions of two projections.

The first adds the column ``outcome``: the number of the record's branch, or :data:`BY_ROW`. The second has the new topic, and a
column per schema of keys and values that the branches have: a record has a value in those of its branch. Column 0 of both has the
original, for records that the chain does not change and those that run by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from connect.data.schema import Schema
from connectors.spark.transforms.branches import KEY, VALUE, Branch, Datum, Nullness
from connectors.spark.transforms.compiler import CompiledBranches, InputSchemas
from connectors.spark.transforms.sql import all_of

BY_ROW = -1
"""The outcome of records that the transformations themselves must change."""


@dataclass(frozen=True, slots=True)
class DatumColumn:
    """A column of keys or values of one schema."""

    name: str
    schema: Schema | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happens with the records of a branch: dropped, or changed to the key and the value in these columns. A column of None
    means that all are null. ``key_null_schema`` and ``value_null_schema`` are the schemas of nulls."""

    dropped: bool
    topic: str | None
    key: DatumColumn | None
    value: DatumColumn | None
    key_null_schema: Schema | None
    value_null_schema: Schema | None
    dropped_headers: frozenset[str]
    headers: tuple[DatumColumn, ...]


@dataclass(frozen=True, slots=True)
class Projection:
    """A compiled chain. ``select`` are the names and expressions of the second projection; the first one adds the column
    ``outcome_column``."""

    outcomes: tuple[Outcome, ...]
    outcome: str
    outcome_column: str
    select: tuple[tuple[str, str], ...]
    keys: tuple[DatumColumn, ...]
    values: tuple[DatumColumn, ...]
    reasons: tuple[str, ...]

    @property
    def dropped(self) -> tuple[int, ...]:
        """The outcomes whose records are dropped."""
        return tuple(i for i, outcome in enumerate(self.outcomes) if outcome.dropped)


class _Columns:
    """The columns of keys or values, one per schema."""

    def __init__(self, part: str, schemas: InputSchemas, cases: _Cases) -> None:
        original = schemas.key if part == KEY else schemas.value
        self._part = part
        self._original = schemas.prefix + part
        self._cases = cases
        self.columns = [DatumColumn(f"{part}_0", original)]
        self._outcomes: list[dict[str, list[int]]] = [{self._original: [BY_ROW]}]

    def add(self, outcome: int, datum: Datum) -> DatumColumn | None:
        """Adds the datum of an outcome; None if it is null."""
        if datum.nullness is Nullness.NULL:
            return None
        if datum.sql == self._original:
            # The original, maybe with another schema.
            self._outcomes[0][self._original].append(outcome)
            return DatumColumn(self.columns[0].name, datum.schema)
        at = next((i for i, c in enumerate(self.columns) if i and c.schema == datum.schema), len(self.columns))
        if at == len(self.columns):
            self.columns.append(DatumColumn(f"{self._part}_{at}", datum.schema))
            self._outcomes.append({})
        self._outcomes[at].setdefault(datum.sql, []).append(outcome)
        return self.columns[at]

    def select(self) -> Iterable[tuple[str, str]]:
        for column, outcomes in zip(self.columns, self._outcomes, strict=True):
            yield column.name, self._cases.expression(outcomes)


@dataclass(frozen=True, slots=True)
class _Cases:
    """Expressions that depend on the outcome."""

    column: str

    def expression(self, outcomes: dict[str, list[int]], otherwise: str | None = None) -> str:
        """Each expression for its outcomes."""
        whens = [f"WHEN {self.column} IN ({', '.join(map(str, numbers))}) THEN {sql}" for sql, numbers in outcomes.items()]
        if not whens:
            return otherwise or "NULL"
        return f"CASE {' '.join(whens)}{'' if otherwise is None else f' ELSE {otherwise}'} END"


def render(compiled: CompiledBranches, schemas: InputSchemas, *, with_headers: bool = False) -> Projection:
    """Renders the branches. ``with_headers`` adds a column per header that they add."""
    prefix = schemas.prefix
    cases = _Cases(f"{prefix.replace('.', '_')}outcome")
    keys, values = _Columns(KEY, schemas, cases), _Columns(VALUE, schemas, cases)
    outcomes: list[Outcome] = []
    header_columns: list[tuple[str, str]] = []
    topics: dict[str, list[int]] = {}
    for number, branch in enumerate(compiled.branches):
        if branch.dropped:
            outcomes.append(Outcome(True, None, None, None, None, None, frozenset(), ()))
            continue
        headers = [DatumColumn(header.key, header.schema) for header in branch.added_headers]
        if with_headers:
            named = enumerate(branch.added_headers)
            header_columns += [(f"header_{number}_{i}", cases.expression({h.sql: [number]})) for i, h in named]
        topics.setdefault(branch.topic_sql, []).append(number)
        outcomes.append(
            Outcome(
                False,
                branch.topic,
                keys.add(number, branch.key),
                values.add(number, branch.value),
                branch.key.null_schema,
                branch.value.null_schema,
                branch.dropped_headers,
                tuple(headers),
            )
        )
    same = [(name, prefix + name) for name in ("partition", "offset", "timestamp", "headers")]
    topic = cases.expression(topics, otherwise=f"{prefix}topic")
    select = [("outcome", cases.column), ("topic", topic), *same, *keys.select(), *values.select(), *header_columns]
    return Projection(
        tuple(outcomes),
        _outcome(compiled.branches),
        cases.column,
        tuple(select),
        tuple(keys.columns),
        tuple(values.columns),
        compiled.reasons,
    )


def _outcome(branches: Sequence[Branch]) -> str:
    whens = [f"WHEN {all_of(branch.conditions)} THEN {number}" for number, branch in enumerate(branches)]
    return f"CASE {' '.join(whens)} ELSE {BY_ROW} END"
