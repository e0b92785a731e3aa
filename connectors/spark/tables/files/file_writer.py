"""Writes new data files of a table."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

OpenWriter = Callable[..., AbstractContextManager[pq.ParquetWriter]]
"""Opens a writer of a stream, a schema, and further options of Arrow's writer."""


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes files into the storage of a table. Until they are committed, they belong to nobody."""

    files: fs.FileSystem
    locate: Callable[[str], str]
    """Where a path of the table's metadata is in the file system."""
    row_group_rows: int
    open_writer: OpenWriter

    def write(self, path: str, rows: pa.Table | Iterator[pa.Table]) -> int:
        """Writes one file of a table's rows, or of batches with the same columns as they come. Returns the number of rows;
        without any, there is no file."""
        groups = _row_groups([rows] if isinstance(rows, pa.Table) else rows, self.row_group_rows)
        first, second = next(groups, None), next(groups, None)
        if first is None:
            return 0
        schema, whole = first.schema, rows if isinstance(rows, pa.Table) else first if second is None else None
        options = {"write_statistics": bounded_columns(schema, whole)}
        groups = itertools.chain([first] if second is None else [first, second], groups)
        del first, second, whole  # row groups are large
        count = 0
        with self._create(path) as stream, self.open_writer(stream, schema, **options) as parquet:
            for group in groups:
                parquet.write_table(group)
                count += group.num_rows
        return count

    def write_bytes(self, path: str, data: bytes) -> None:
        """Writes a file of another kind."""
        with self._create(path) as stream:
            stream.write(data)

    def size(self, path: str) -> int:
        return int(self.files.get_file_info(self.locate(path)).size)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes files that certainly no commit names."""
        for path in paths:
            with contextlib.suppress(OSError):
                self.files.delete_file(self.locate(path))

    @contextlib.contextmanager
    def _create(self, path: str) -> Iterator[pa.NativeFile]:
        """A new file, deleted if the block fails."""
        try:
            with self.files.open_output_stream(self.locate(path)) as stream:
                yield stream
        except BaseException:
            self.delete([path])
            raise


def _row_groups(batches: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """The same rows, in tables of this many rows; the last one may have fewer."""
    pending: list[pa.Table] = []
    count = 0
    for batch in batches:
        pending.append(batch)
        count += batch.num_rows
        while count >= rows:
            whole = pa.concat_tables(pending)
            yield whole.slice(0, rows)
            pending, count = [whole.slice(rows)], count - rows
    if count:
        yield pa.concat_tables(pending)


def bounded_columns(schema: pa.Schema, rows: pa.Table | None) -> list[str] | bool:
    """The columns and nested fields that have bounds in the footer of a file with these rows, as Arrow's writer takes them.

    A floating-point column that has a NaN has none, nor one of rows that are not known yet (None): bounds leave NaN out, but to
    Spark it is greater than every number, and a reader would skip rows that its condition is true for.
    """
    floats = {path for path, leaf in _leaves(schema.empty_table()) if pa.types.is_floating(leaf.type)}
    if rows is not None and floats:
        floats = {path for path, leaf in _leaves(rows) if path in floats and pc.any(pc.is_nan(leaf)).as_py()}
    return [path for path, _ in _leaves(schema.empty_table()) if path not in floats] if floats else True


def _leaves(rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """The values of columns and nested fields without others in them, with their paths in Parquet."""
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        for chunk in column.chunks or [pa.array([], column.type)]:
            yield from _leaves_in(chunk, name)


def _leaves_in(array: pa.Array, path: str) -> Iterator[tuple[str, pa.Array]]:
    t = pa.types
    if t.is_struct(array.type):
        for place, member in enumerate(array.type):
            yield from _leaves_in(array.field(place), f"{path}.{member.name}")
    elif t.is_list(array.type):
        yield from _leaves_in(_within(array.offsets, array.values), f"{path}.list.element")
    elif t.is_map(array.type):
        yield from _leaves_in(_within(array.offsets, array.keys), f"{path}.key_value.key")
        yield from _leaves_in(_within(array.offsets, array.items), f"{path}.key_value.value")
    else:
        yield path, array


def _within(offsets: pa.Array, values: pa.Array) -> pa.Array:
    """Those of the values that are in one of the lists, which may be a part of others."""
    first = offsets[0].as_py()
    return values.slice(first, offsets[-1].as_py() - first)
