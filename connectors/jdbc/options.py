"""How values are read and written: what a configuration asks of a dialect."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum

from connect.data.schema import Schema, Type


class Granularity(Enum):
    """``timestamp.granularity``: what a TIMESTAMP becomes."""

    CONNECT_LOGICAL = "connect_logical"
    MICROS_LONG = "micros_long"
    MICROS_STRING = "micros_string"
    MICROS_ISO = "micros_iso_datetime_string"
    NANOS_LONG = "nanos_long"
    NANOS_STRING = "nanos_string"
    NANOS_ISO = "nanos_iso_datetime_string"


class NumericMapping(Enum):
    """``numeric.mapping``: what a NUMERIC becomes (DECIMAL is always Connect's Decimal)."""

    NONE = "none"
    PRECISION_ONLY = "precision_only"
    BEST_FIT = "best_fit"
    BEST_FIT_EAGER_DOUBLE = "best_fit_eager_double"


class Calendar(Enum):
    """``date.calendar.system``: how days before 15 October 1582 are counted in Connect's Date and Timestamp."""

    LEGACY = "LEGACY"
    PROLEPTIC_GREGORIAN = "PROLEPTIC_GREGORIAN"


class InsertMode(Enum):
    """What a sink does with a record."""

    INSERT = "insert"
    UPSERT = "upsert"
    UPDATE = "update"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How a source wants its rows."""

    zone: dt.tzinfo = dt.UTC
    """``db.timezone``: of dates and timestamps that have none."""
    granularity: Granularity = Granularity.CONNECT_LOGICAL
    numeric: NumericMapping = NumericMapping.NONE
    unset_scale: int | Type = 0
    """``numeric.unset.scale``: the scale of a number whose column has none, or FLOAT64 or STRING to read it as that."""
    calendar: Calendar = Calendar.LEGACY
    strict: bool = False
    """``conversion.strict``: a value that the originals cut (a timestamp finer than a millisecond) is an error."""
    decimal_precision: bool = True
    """Whether schemas of Decimal have the column's precision as a parameter, as Confluent's do and Aiven's do not."""
    skip_unsupported: bool = False
    """``unsupported.columns=skip``: a column of a type without counterpart is left out, with a warning, instead of an error."""
    exact: tuple[str, ...] = ()
    """Columns whose values are also wanted as they are: integers as int, timestamps as ns since 1970 UTC."""
    batch_rows: int = 1000
    """About how many rows are read at a time."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a sink wants its values written."""

    zone: dt.tzinfo = dt.UTC
    """``db.timezone``: of dates and timestamps in columns that have none."""
    date_zone: dt.tzinfo = dt.UTC
    """``date.timezone``: of DATE columns."""
    calendar: Calendar = Calendar.LEGACY
    null_as_default: bool = True
    """``replace.null.with.default``: a null in a field with a default is written as that."""
    string_timestamps: frozenset[str] = frozenset()
    """``timestamp.fields.list``: fields of int64 or string that hold timestamps, in units of ``timestamp_unit_ns``."""
    timestamp_unit_ns: int = 1000
    merge_holds_lock: bool = True
    """``mssql.use.merge.holdlock``: whether MERGE in SQL Server takes HOLDLOCK."""
    strict: bool = False
    """``conversion.strict``: a value that the database would round or cut in silence is an error; see ``dialects/losses.py``."""
    overrides_identity: bool = False
    """Whether values go into a column that is GENERATED ALWAYS AS IDENTITY; else the database refuses them."""


@dataclass(frozen=True, slots=True)
class SinkField:
    """A field of records on its way to a column."""

    name: str
    """Of the column to write or create."""
    schema: Schema
    is_key: bool = False
    source_type: str | None = None
    """The type that the column has where it came from, when the schema tells (``__debezium.source.column.type``)."""
    sql_type: str | None = None
    """The type of a new column, as SQL, where it is not for the dialect to choose."""
    refuses_null: bool = False
    """Whether a new column with a default says NOT NULL as well, if the field is required."""
