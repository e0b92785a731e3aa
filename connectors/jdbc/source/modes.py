"""The modes of the source, and the incremental queries of Confluent's connector."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from connectors.jdbc.sql import Bind, Sql, joined


class Mode(Enum):
    """``mode``."""

    BULK = "bulk"
    TIMESTAMP = "timestamp"
    INCREMENTING = "incrementing"
    TIMESTAMP_INCREMENTING = "timestamp+incrementing"

    @property
    def uses_timestamp(self) -> bool:
        return self in (Mode.TIMESTAMP, Mode.TIMESTAMP_INCREMENTING)

    @property
    def uses_incrementing(self) -> bool:
        return self in (Mode.INCREMENTING, Mode.TIMESTAMP_INCREMENTING)


@dataclass(frozen=True, slots=True)
class CursorColumns:
    """Quoted columns of an incremental mode: an incrementing column, timestamp columns, or both."""

    incrementing: str | None = None
    timestamps: tuple[str, ...] = ()

    @property
    def timestamp(self) -> Sql:
        return Sql(self.timestamps[0]) if len(self.timestamps) == 1 else Sql("COALESCE(", joined(",", self.timestamps), ")")

    def compare(self, operator: str, instant: TimestampBounds) -> Sql:
        """Compares the timestamp with an instant, which has a SQL form per column."""
        if all(form == instant[0] for form in instant):
            return self.timestamp + operator + instant[0]
        cases = [
            Sql(f" WHEN {name} IS NOT NULL THEN {name}{operator}", form)
            for name, form in zip(self.timestamps, instant, strict=True)
        ]
        return Sql("CASE", *cases, " END")


TimestampBounds = tuple[Sql, ...]
"""An instant as the dialect writes it for each timestamp column."""


@dataclass(frozen=True, slots=True)
class QueryRange:
    """Start and end of an incremental query."""

    incrementing: int = -1
    start: TimestampBounds = ()
    end: TimestampBounds = ()
    inclusive: bool = False
    """Whether rows with the timestamp ``start`` are included, because none of them has been read."""


def incremental_query(select: Sql, columns: CursorColumns, range: QueryRange) -> Sql:
    """Selects the rows after ``range.start``, in order. The end is exclusive, because more rows with that timestamp may
    follow, which would be lost."""
    incrementing = columns.incrementing
    if not columns.timestamps:
        assert incrementing is not None
        return select + Sql(f" WHERE {incrementing} > ", Bind(range.incrementing), f" ORDER BY {incrementing} ASC")
    after = columns.compare(" >= " if range.inclusive else " > ", range.start)
    before = columns.compare(" < ", range.end)
    if incrementing is None:
        return select + Sql(" WHERE ", after, " AND ", before, " ORDER BY ", columns.timestamp, " ASC")
    if not range.inclusive:
        same = Sql("(", columns.compare(" = ", range.start), f" AND {incrementing} > ", Bind(range.incrementing), ")")
        after = Sql("(", same, " OR ", after, ")")
    return select + Sql(" WHERE ", before, " AND ", after, " ORDER BY ", columns.timestamp, f",{incrementing} ASC")


def with_suffix(query: Sql, suffix: str) -> Sql:
    return query + " " + suffix if suffix else query
