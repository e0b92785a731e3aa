"""How a config tells a dialect to read and write values."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from enum import Enum

from connect.data.schema import Schema, Type


class Granularity(Enum):
    """``timestamp.granularity``: the representation of a TIMESTAMP."""

    CONNECT_LOGICAL = "connect_logical"
    MICROS_LONG = "micros_long"
    MICROS_STRING = "micros_string"
    MICROS_ISO = "micros_iso_datetime_string"
    NANOS_LONG = "nanos_long"
    NANOS_STRING = "nanos_string"
    NANOS_ISO = "nanos_iso_datetime_string"


class NumericMapping(Enum):
    """``numeric.mapping``: the type of a NUMERIC (DECIMAL is always Connect's Decimal)."""

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
    """How a source reads rows."""

    zone: dt.tzinfo = dt.UTC
    """``db.timezone``: the zone of dates and timestamps without one."""
    granularity: Granularity = Granularity.CONNECT_LOGICAL
    numeric: NumericMapping = NumericMapping.NONE
    unset_scale: int | Type = 0
    """``numeric.unset.scale``: the scale of numbers whose column has none, or FLOAT64 or STRING to read them as that type."""
    calendar: Calendar = Calendar.LEGACY
    strict: bool = False
    """``conversion.strict``: reject values that Confluent's and Aiven's connectors truncate (timestamps finer than a
    millisecond)."""
    decimal_precision: bool = True
    """Whether Decimal schemas have the column's precision as a parameter, as Confluent's do and Aiven's do not."""
    skip_unsupported: bool = False
    """``unsupported.columns=skip``: omit columns whose type has no mapping, with a warning, instead of failing."""
    exact: tuple[str, ...] = ()
    """Columns whose values are also returned exactly: integers as int, timestamps as ns since 1970 UTC."""
    batch_rows: int = 1000
    """Approximate number of rows to fetch at a time."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """How a sink writes values."""

    zone: dt.tzinfo = dt.UTC
    """``db.timezone``: the zone of dates and timestamps in columns without one."""
    date_zone: dt.tzinfo = dt.UTC
    """``date.timezone``: the zone of DATE columns."""
    calendar: Calendar = Calendar.LEGACY
    null_as_default: bool = True
    """``replace.null.with.default``: write the default for a null in a field that has one."""
    string_timestamps: frozenset[str] = frozenset()
    """``timestamp.fields.list``: fields of int64 or string that hold timestamps, in units of ``timestamp_unit_ns``."""
    timestamp_unit_ns: int = 1000
    merge_holds_lock: bool = True
    """``mssql.use.merge.holdlock``: whether SQL Server's MERGE uses HOLDLOCK."""
    strict: bool = False
    """``conversion.strict``: reject values that the database would silently round or truncate; see ``dialects/lossless.py``."""
    overrides_identity: bool = False
    """Whether to write to columns that are GENERATED ALWAYS AS IDENTITY; otherwise the database rejects the values."""


@dataclass(frozen=True, slots=True)
class SinkField:
    """A record field and the column it is written to."""

    name: str
    """The name of the column to write or create."""
    schema: Schema
    is_key: bool = False
    source_type: str | None = None
    """The type of the source column, if the schema has it (``__debezium.source.column.type``)."""
    sql_type: str | None = None
    """The SQL type of a new column if the dialect does not choose it."""
    refuses_null: bool = False
    """Whether a new column with a default is also NOT NULL if the field is required."""
