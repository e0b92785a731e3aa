"""Refuses old dates and timestamps of files that Spark 2 has written, or Spark 3 in the rebase mode LEGACY.

Such files count dates in the Julian calendar until 1582-10-04, and timestamps in the time zones of old Java versions until 1900.
Spark converts the values when it reads them, in a time zone that the file need not name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from connectors.spark.tables.files.file_columns import UnreadableColumn

_SPARK = b"org.apache.spark."
_VERSION = re.compile(rb"(\d+)\.(\d+)")
_FIRST_DAY = -141_427
"""1582-10-15."""
_FIRST_MICROS = -2_208_988_800_000_000
"""1900-01-01T00:00:00Z."""


@dataclass(frozen=True, slots=True)
class LegacyCalendar:
    """Of which types a file has values of the legacy calendar."""

    dates: bool
    timestamps: bool

    @classmethod
    def of_file(cls, parquet: pq.ParquetFile) -> LegacyCalendar | None:
        """What the footer says, as Spark reads it; None if no values are of this calendar."""
        footer = parquet.metadata.metadata or {}
        found = _VERSION.match(footer.get(_SPARK + b"version", b""))
        if found is None:
            return None
        version = int(found[1]), int(found[2])
        dates = version < (3, 0) or _SPARK + b"legacyDateTime" in footer
        int96 = version < (3, 1) or _SPARK + b"legacyINT96" in footer
        if not dates and not int96:
            return None
        schema = parquet.schema
        has_int96 = any(schema.column(at).physical_type == "INT96" for at in range(len(schema)))
        return cls(dates, int96 if has_int96 else dates)

    def check(self, rows: pa.Table, path: str) -> None:
        """Raises UnreadableColumn if rows of the file have dates or timestamps that Spark would convert."""
        for name in rows.column_names:
            if any(map(self._has_old_values, rows[name].chunks)):
                raise UnreadableColumn(
                    f"column {name} of the file {path} has dates before 1582-10-15, or timestamps before 1900, in the calendar "
                    "of Spark 2. Rewrite such files with Spark 3 or later, without the rebase mode LEGACY"
                )

    def _has_old_values(self, array: pa.Array) -> bool:
        type_ = array.type
        if pa.types.is_struct(type_) or pa.types.is_map(type_):
            parts = array.flatten() if pa.types.is_struct(type_) else (array.keys, array.items)
            return any(map(self._has_old_values, parts))
        if pa.types.is_list(type_):
            return self._has_old_values(array.flatten())
        if pa.types.is_date32(type_) and self.dates:
            least, first = pc.min(array.cast(pa.int32())).as_py(), _FIRST_DAY
        elif pa.types.is_timestamp(type_) and self.timestamps:
            least, first = pc.min(array.cast(pa.timestamp("us", type_.tz)).cast(pa.int64())).as_py(), _FIRST_MICROS
        else:
            return False
        return least is not None and bool(least < first)
