"""The changes of one commit, in an order that depends only on the commit, its files, the key columns, and ``pairing_rows``.

With a change data feed, the commit names files of changes. Otherwise they follow from its ``add`` and ``remove`` actions:

- A file that is added, and not removed: its rows, without those in its deletion vector, are inserts.
- A file that is removed, and not added: its rows, without those in its deletion vector, are deletes.
- A file that is both gets another deletion vector: rows that are only in the new one are deletes, those only in the old one
  inserts.

Without key columns, the deletes come first, in the order of the commit's ``remove`` actions and of the rows in their files, then
the inserts. With key columns, :mod:`connectors.spark.source.pairing` defines the order.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connect.errors import ConnectError
from connectors.spark.plan.evolution import cast_column, is_castable
from connectors.spark.source.delta.files import DeltaFiles
from connectors.spark.source.pairing import FileRowSets, RowSource, pair_rows
from connectors.spark.source.table_feed import (
    CREATE_CODE,
    DELETE_CODE,
    UPDATE_CODE,
    FeedChanges,
    TableSchema,
    deleted,
    inserted,
)
from connectors.spark.tables.delta.log import Action, LoggedCommit
from connectors.spark.tables.files.file_reader import FileRows

CHANGE_TYPE = "_change_type"
_INSERT, _DELETE, _BEFORE, _AFTER = "insert", "delete", "update_preimage", "update_postimage"
_CODES = {_INSERT: CREATE_CODE, _DELETE: DELETE_CODE, _BEFORE: DELETE_CODE, _AFTER: CREATE_CODE}


@dataclass(frozen=True, slots=True)
class SchemaChanges:
    """Changes, and the schema of their rows."""

    schema: TableSchema
    changes: FeedChanges


@dataclass(frozen=True, slots=True)
class CommitReader:
    """Reads the changes of commits. Memory: one row group, ``batch_rows`` rows, and for pairing ``pairing_rows`` rows."""

    files: DeltaFiles
    keys: tuple[str, ...]
    pairing_rows: int
    batch_rows: int

    def read(
        self, commit: LoggedCommit, old: TableSchema, new: TableSchema, *, was_partitioned: bool
    ) -> Iterator[SchemaChanges | None]:
        """Yields the changes of a commit, and None in between to return to the caller often. ``old`` and ``new`` are the schemas
        before and after it; ``was_partitioned`` belongs to ``old``. Raises UnreadableFile.
        """
        self.files.forget_vectors()
        if commit.cdc:
            yield from self._read_feed(commit.cdc, new)
            return
        removed, added = self._row_sets(commit, was_partitioned)
        deletes = _RemovedRows(self._rows(removed, old), old, new if can_read_as(old, new) else old)
        inserts = self._rows(added, new)
        if self.keys and removed and added and deletes.schema is new:
            yield from self._paired(deletes, inserts, new)
            return
        for rows in deletes.read():
            yield SchemaChanges(deletes.schema, deleted(rows))
        for rows in inserts.read():
            yield SchemaChanges(new, inserted(rows))

    def _paired(self, deletes: RowSource, inserts: RowSource, schema: TableSchema) -> Iterator[SchemaChanges | None]:
        keys = {name: schema.types[name] for name in self.keys}
        for changes in pair_rows(deletes, inserts, keys, self.pairing_rows, self.batch_rows):
            yield None if changes is None else SchemaChanges(schema, changes)

    def _rows(self, sets: Sequence[FileRows], schema: TableSchema) -> FileRowSets:
        return FileRowSets(self.files.files, sets, schema.file_columns, self.batch_rows)

    def _row_sets(self, commit: LoggedCommit, was_partitioned: bool) -> tuple[list[FileRows], list[FileRows]]:
        """Deleted and inserted rows, by file."""
        removes = {action["path"]: action for action in commit.removes if action.get("dataChange", True)}
        adds = {action["path"]: action for action in commit.adds if action.get("dataChange", True)}
        if was_partitioned:
            _require_partition_values(commit.version, removes.values())
        removed, added = [], []
        for path, action in removes.items():
            if path not in adds:
                removed.append(self._all_rows(action))
                continue
            before, after = self.files.deleted_rows(action), self.files.deleted_rows(adds[path])
            if len(gone := np.setdiff1d(after, before, assume_unique=True)):
                removed.append(FileRows(self.files.described(action), only=gone))
            if len(restored := np.setdiff1d(before, after, assume_unique=True)):
                added.append(FileRows(self.files.described(adds[path]), only=restored))
        added += [self._all_rows(action) for path, action in adds.items() if path not in removes]
        return removed, added

    def _all_rows(self, action: Action) -> FileRows:
        without = self.files.deleted_rows(action)
        return FileRows(self.files.described(action), without=without if len(without) else None)

    def _read_feed(self, actions: Sequence[Action], schema: TableSchema) -> Iterator[SchemaChanges | None]:
        sets = [FileRows(self.files.described(action)) for action in actions]
        if self.keys:
            rows = self._rows(sets, schema)
            deletes, inserts = (_FeedRows(rows, schema, types) for types in ((_DELETE, _BEFORE), (_INSERT, _AFTER)))
            yield from self._paired(deletes, inserts, schema)
            return
        columns = {**schema.types, CHANGE_TYPE: pa.string()}
        for one in sets:
            yield from _adjacent_changes(one.read(self.files.files, schema.file_columns(columns), self.batch_rows), schema)


def _require_partition_values(version: int, removes: Iterable[Action]) -> None:
    for action in removes:
        if action.get("partitionValues") is None:
            raise ConnectError(
                f"version {version} removes the file {action['path']} without its partition values, so its rows are "
                "unknown: the writer of the table is too old (extendedFileMetadata)"
            )


@dataclass(frozen=True, slots=True)
class _RemovedRows:
    """Rows that a commit deletes. They are found in files as the version before the commit has them, and delivered with
    ``schema``: that of the commit's version if :func:`can_read_as` says so, else the old one."""

    rows: FileRowSets
    old: TableSchema
    schema: TableSchema

    def count(self) -> int:
        return self.rows.count()

    def read(self, columns: Mapping[str, pa.DataType] | None = None) -> Iterator[pa.Table]:
        wanted = columns or self.schema.types
        for rows in self.rows.read({name: type_ for name, type_ in self.old.types.items() if name in wanted}):
            yield rows if self.schema is self.old else _as_new(rows, wanted)


def _as_new(rows: pa.Table, columns: Mapping[str, pa.DataType]) -> pa.Table:
    known = rows.column_names
    return pa.table(
        {
            name: cast_column(rows[name], type_, name) if name in known else pa.nulls(rows.num_rows, type_)
            for name, type_ in columns.items()
        }
    )


@dataclass(frozen=True, slots=True)
class _FeedRows:
    """The rows of change files that have certain types."""

    rows: FileRowSets
    schema: TableSchema
    types: tuple[str, ...]

    def count(self) -> int:
        return self.rows.count()

    def read(self, columns: Mapping[str, pa.DataType] | None = None) -> Iterator[pa.Table]:
        wanted = {**(columns or self.schema.types), CHANGE_TYPE: pa.string()}
        for rows in self.rows.read(wanted):
            kept = rows.filter(pc.is_in(rows[CHANGE_TYPE], pa.array(self.types)))
            if kept.num_rows:
                yield kept.drop_columns([CHANGE_TYPE])


def _adjacent_changes(parts: Iterator[pa.Table], schema: TableSchema) -> Iterator[SchemaChanges]:
    """Changes of rows without a key: a pre-image and the post-image that follows it are an update.

    The last row of a part waits for the next part, so that the result does not depend on the size of the parts.
    """
    waiting: pa.Table | None = None
    for part in itertools.chain(parts, [None]):
        rows = waiting if part is None else part if waiting is None else pa.concat_tables([waiting, part])
        if rows is None:
            return
        types = rows[CHANGE_TYPE].to_pylist()
        end = len(types) - (part is not None and types[-1] == _BEFORE)
        waiting = rows.slice(end) if end < len(types) else None
        if end:
            yield SchemaChanges(schema, _update_neighbors(rows.slice(0, end).drop_columns([CHANGE_TYPE]), types[:end]))


def _update_neighbors(rows: pa.Table, types: Sequence[str]) -> FeedChanges:
    codes: list[int] = []
    before: list[int | None] = []
    after: list[int | None] = []
    place = 0
    while place < len(types):
        kind = types[place]
        if kind not in _CODES:
            raise ConnectError(f"a file of the change data feed has the change type {kind!r}, which is not supported")
        if kind == _BEFORE and place + 1 < len(types) and types[place + 1] == _AFTER:
            codes.append(UPDATE_CODE)
            before.append(place)
            after.append(place + 1)
            place += 2
            continue
        code = _CODES[kind]
        codes.append(code)
        before.append(place if code == DELETE_CODE else None)
        after.append(place if code == CREATE_CODE else None)
        place += 1
    images = (rows.take(pa.array(places, pa.int64())) for places in (before, after))
    return FeedChanges(np.array(codes, np.uint8), *images)


def can_read_as(old: TableSchema, new: TableSchema) -> bool:
    """Whether rows of the old schema are rows of the new one without loss: its columns are there, no type is narrower, and a
    column is required only if it was."""
    if old is new:
        return True
    types = new.types
    for column in old.columns:
        type_ = types.get(column.name)
        if type_ is None or not is_castable(column.type, type_) or _is_narrower(type_, column.type):
            return False
    were_required = {column.name for column in old.columns if not column.nullable}
    return all(column.nullable or column.name in were_required for column in new.columns)


def _is_narrower(type_: pa.DataType, than: pa.DataType) -> bool:
    t = pa.types
    if t.is_struct(type_) and t.is_struct(than):
        return any(type_.get_field_index(f.name) < 0 or _is_narrower(type_.field(f.name).type, f.type) for f in than)
    if t.is_list(type_) and t.is_list(than):
        return _is_narrower(type_.value_type, than.value_type)
    if t.is_map(type_) and t.is_map(than):
        return _is_narrower(type_.key_type, than.key_type) or _is_narrower(type_.item_type, than.item_type)
    if t.is_decimal(type_) and t.is_decimal(than):
        return bool(type_.scale < than.scale or type_.precision - type_.scale < than.precision - than.scale)
    if t.is_nested(type_) or t.is_nested(than) or type_ == than:
        return False
    if t.is_integer(than) and t.is_floating(type_):
        return bool(than.bit_width * 2 > type_.bit_width)
    if t.is_integer(than) and t.is_decimal(type_):
        return bool(type_.precision - type_.scale < (20 if than.bit_width == 64 else 10))
    return bool(type_.bit_width < than.bit_width)
