"""Reads Iceberg tables into Arrow with PyIceberg, an engine that shares no code with Spark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from pyiceberg.table import StaticTable

from connect.errors import NotFoundError


class IcebergTableReader:
    """The newest snapshot of the Iceberg table in a local folder. Raises NotFoundError if there is no table."""

    def __init__(self, location: Path | str) -> None:
        metadata = Path(location) / "metadata"
        hint = metadata / "version-hint.text"
        if not hint.is_file():
            raise NotFoundError(f"there is no Iceberg table at {location}")
        self._table = StaticTable.from_metadata(str(metadata / f"v{hint.read_text().strip()}.metadata.json"))

    @property
    def columns(self) -> list[str]:
        return [field.name for field in self._table.schema().fields]

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """Returns the rows, unordered."""
        rows = self._table.scan(selected_fields=tuple(columns or ("*",))).to_arrow()
        return rows.cast(pa.schema([pa.field(field.name, _plain(field.type)) for field in rows.schema]))


def _plain(type_: pa.DataType) -> pa.DataType:
    """The type without the wide offsets that PyIceberg uses for texts, bytes, and lists."""
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(_plain(type_.value_type))
    return type_
