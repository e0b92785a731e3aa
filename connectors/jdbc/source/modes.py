"""The SQL of each mode, in the originals' form, and what follows from it."""

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
    """What an incremental mode goes by, quoted: one number, or one or more times, or both."""

    number: str | None = None
    times: tuple[str, ...] = ()

    @property
    def time(self) -> Sql:
        return Sql(self.times[0]) if len(self.times) == 1 else Sql("COALESCE(", joined(",", self.times), ")")

    def compared(self, operator: str, instant: TimestampBounds) -> Sql:
        """The time against a bound, which has a form for each column."""
        if all(form == instant[0] for form in instant):
            return self.time + operator + instant[0]
        cases = [
            Sql(f" WHEN {name} IS NOT NULL THEN {name}{operator}", form) for name, form in zip(self.times, instant, strict=True)
        ]
        return Sql("CASE", *cases, " END")


TimestampBounds = tuple[Sql, ...]
"""An instant, for each timestamp column as only the dialect knows to write it."""


@dataclass(frozen=True, slots=True)
class QueryRange:
    """Where a query begins and ends."""

    number: int = -1
    begin: TimestampBounds = ()
    end: TimestampBounds = ()
    inclusive: bool = False
    """Whether rows of the time ``begin`` itself are read too: when nothing of that time has been read yet."""


def incremental_query(select: Sql, columns: CursorColumns, range: QueryRange) -> Sql:
    """The rows that come after ``range.begin``, in order. Both times are exclusive, or rows of an instant that is not over would
    be read and those that come later in it lost."""
    number = columns.number
    if not columns.times:
        assert number is not None
        return select + Sql(f" WHERE {number} > ", Bind(range.number), f" ORDER BY {number} ASC")
    after = columns.compared(" >= " if range.inclusive else " > ", range.begin)
    before = columns.compared(" < ", range.end)
    if number is None:
        return select + Sql(" WHERE ", after, " AND ", before, " ORDER BY ", columns.time, " ASC")
    if not range.inclusive:
        same = Sql("(", columns.compared(" = ", range.begin), f" AND {number} > ", Bind(range.number), ")")
        after = Sql("(", same, " OR ", after, ")")
    return select + Sql(" WHERE ", before, " AND ", after, " ORDER BY ", columns.time, f",{number} ASC")


def with_suffix(query: Sql, suffix: str) -> Sql:
    return query + " " + suffix if suffix else query
