"""Reads Delta tables into Arrow with delta-rs, an engine that shares no code with Spark.

The demo and the tests compare tables by it. It applies deletion vectors, in contrast to delta-rs' own ``to_pyarrow_table``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import TableNotFoundError

from connect.errors import NotFoundError


class DeltaTableReader:
    """One version of a Delta table, the newest by default. Raises NotFoundError if there is no table at the location.

    ``storage_options`` are delta-rs' settings of an object store.
    """

    def __init__(
        self, location: Path | str, version: int | None = None, storage_options: Mapping[str, str] | None = None
    ) -> None:
        try:
            self._table = DeltaTable(str(location), version=version, storage_options=dict(storage_options or {}) or None)
        except TableNotFoundError as e:
            raise NotFoundError(f"there is no Delta table at {location}") from e
        self.schema: pa.Schema = pa.schema(self._table.schema().to_arrow())

    @property
    def version(self) -> int:
        return int(self._table.version())

    @property
    def columns(self) -> list[str]:
        return list(self.schema.names)

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the rows, unordered, with the types of the table's schema."""
        names = self.columns if columns is None else list(columns)
        schema = pa.schema([self.schema.field(name) for name in names])
        shown = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
        builder = QueryBuilder().register("t", self._table)
        # The engine returns texts and bytes as views, for which few of Arrow's functions exist.
        return pa.table(builder.execute(f"SELECT {shown} FROM t")).cast(schema)


def read_delta_table(
    location: Path | str, columns: Sequence[str] | None = None, storage_options: Mapping[str, str] | None = None
) -> pa.Table:
    """Reads the newest version of a table. Raises NotFoundError if there is none."""
    return DeltaTableReader(location, storage_options=storage_options).read(columns)
