"""Writes small Delta tables, action by action, and knows their rows at every version."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from connectors.spark.plan.evolution import spark_json_field
from connectors.spark.tables.delta.deletion_vectors import encode_vector_file, vector_file_name
from tests.support.write_at_once import write_at_once

Row = dict[str, Any]


class DeltaWriter:
    """A table whose rows have the columns ``columns``; every method that changes it writes one version."""

    def __init__(
        self,
        folder: Path,
        columns: Mapping[str, pa.DataType],
        *,
        partitioned_by: Sequence[str] = (),
        table_id: str = "table-1",
        group_rows: int = 3,
        maps_names: bool = False,
    ) -> None:
        """``maps_names``: files have other names for columns, and for fields in them (column mapping)."""
        self.folder = folder
        self.log = folder / "_delta_log"
        self.columns = dict(columns)
        self.files: dict[str, list[Row]] = {}
        self.deleted: dict[str, set[int]] = {}
        self.versions: list[list[Row]] = []
        """The rows at each version."""
        self._vectors: dict[str, Any] = {}
        self._partitions: dict[str, dict[str, str | None]] = {}
        self._partitioned_by = list(partitioned_by)
        self._maps_names = maps_names
        self._required: Collection[str] = ()
        self._in_files: dict[str, str] = {}
        """The first name of a column that was renamed."""
        self._group_rows = group_rows
        self._id = table_id
        self._number = 0
        self.protocol: dict[str, Any] = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
        self.configuration: dict[str, str] = {}
        if maps_names:
            self.protocol["readerFeatures"] += ["columnMapping"]
            self.configuration["delta.columnMapping.mode"] = "name"
        self.log.mkdir(parents=True)

    # --- versions

    def create(self, rows: Sequence[Row] = ()) -> DeltaWriter:
        self.commit([{"protocol": self.protocol}, self.metadata(), *([self.add(rows)] if rows else [])])
        return self

    def insert(self, *parts: Sequence[Row]) -> None:
        self.commit([self.add(rows) for rows in parts])

    def delete(self, matches: Callable[[Row], bool]) -> None:
        """Deletes rows with deletion vectors, and files whose rows are all deleted."""
        self.commit(self._delete_actions(matches))

    def update(self, matches: Callable[[Row], bool], change: Callable[[Row], Row]) -> None:
        """Replaces rows: deletion vectors, and a new file."""
        found = [row for row in self.rows() if matches(row)]
        actions = self._delete_actions(matches)
        self.commit([*actions, *([self.add([change(row) for row in found])] if found else [])])

    def rewrite(self, matches: Callable[[Row], bool], change: Callable[[Row], Row | None]) -> None:
        """Changes or deletes rows by writing new files, as tables without deletion vectors do."""
        actions = []
        for path in list(self.files):
            rows = self.live(path)
            if not any(map(matches, rows)):
                continue
            kept = [new for row in rows if (new := change(row) if matches(row) else row) is not None]
            actions.append(self.remove(path))
            if kept:
                actions.append(self.add(kept))
        self.commit(actions)

    def optimize(self) -> None:
        """Rewrites all files into one, without a change of rows."""
        rows = self.rows()
        actions = [self.remove(path, data_change=False) for path in list(self.files)]
        self.commit([*actions, *([self.add(rows, data_change=False)] if rows else [])])

    def change_feed(self, changes: Sequence[Row]) -> None:
        """Applies changes (rows with ``_change_type``) and writes a file of the change data feed."""
        gone = [_key(c) for c in changes if c["_change_type"] in ("delete", "update_preimage")]
        new = [_without_type(c) for c in changes if c["_change_type"] in ("insert", "update_postimage")]
        actions = self._delete_actions(lambda row: _key(row) in gone)
        path = f"_change_data/cdc-{self._next()}.parquet"
        self._write(path, changes, {**self.columns, "_change_type": pa.string()})
        cdc = {"cdc": {"path": path, "partitionValues": {}, "size": 1, "dataChange": False}}
        self.commit([*actions, *([self.add(new)] if new else []), cdc])

    def add_column(self, name: str, type_: pa.DataType) -> None:
        if name in self._in_files.values():
            self._in_files[name] = f"{name}-{self._next()}"
        self.columns[name] = type_
        for rows in self.files.values():
            for row in rows:
                row[name] = None
        self.commit([self.metadata()])

    def rename_column(self, name: str, new: str) -> None:
        """Renames a column of a table that maps names."""
        self._in_files[new] = self._in_files.pop(name, name)
        self._partitioned_by = [new if known == name else known for known in self._partitioned_by]
        self.columns = {new if known == name else known: type_ for known, type_ in self.columns.items()}
        for path, rows in self.files.items():
            self.files[path] = [{new if known == name else known: value for known, value in row.items()} for row in rows]
        self.commit([self.metadata()])

    def overwrite(self, columns: Mapping[str, pa.DataType], rows: Sequence[Row], required: Collection[str] = ()) -> None:
        """Replaces all rows, with other columns. Of a table that maps names, one with another type gets another name in files."""
        self._required = required
        actions = [self.remove(path) for path in list(self.files)]
        for name in columns:
            if columns[name] != self.columns.get(name, columns[name]):
                self._in_files[name] = f"{name}-{self._next()}"
        self.columns = dict(columns)
        self.commit([*actions, self.metadata(), self.add(rows)])

    def commit(self, actions: Sequence[Mapping[str, Any]]) -> int:
        version = len(self.versions)
        info = {"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "TEST"}}
        write_at_once(self.commit_file(version), "\n".join(map(json.dumps, [info, *actions])))
        self.versions.append([dict(row) for row in self.rows()])
        return version

    # --- actions

    def metadata(self) -> dict[str, Any]:
        fields: list[dict[str, Any]] = [
            {**spark_json_field(n, t), "nullable": n not in self._required} for n, t in self.columns.items()
        ]
        if self._maps_names:
            fields = [_mapped_json(field, self._name_in_files(str(field["name"]))) for field in fields]
        schema = {"type": "struct", "fields": fields}
        return {
            "metaData": {
                "id": self._id,
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": self._partitioned_by,
                "configuration": self.configuration,
            }
        }

    def add(self, rows: Sequence[Row], *, data_change: bool = True) -> dict[str, Any]:
        path = f"part-{self._next()}.parquet"
        complete = [{name: row.get(name) for name in self.columns} for row in rows]
        self._partitions[path] = {self._name_in_files(name): _text(complete[0][name]) for name in self._partitioned_by}
        in_file = {n: t for n, t in self.columns.items() if n not in self._partitioned_by}
        self._write(path, complete, in_file)
        self.files[path], self.deleted[path] = complete, set()
        return {"add": self._action(path, data_change)}

    def remove(self, path: str, *, data_change: bool = True) -> dict[str, Any]:
        action = {**self._action(path, data_change), "extendedFileMetadata": True}
        del self.files[path], self.deleted[path]
        self._vectors.pop(path, None)
        return {"remove": action}

    def _delete_actions(self, matches: Callable[[Row], bool]) -> list[dict[str, Any]]:
        actions: list[dict[str, Any]] = []
        for path, rows in list(self.files.items()):
            gone = {i for i, row in enumerate(rows) if matches(row)} - self.deleted[path]
            if not gone:
                continue
            if len(self.deleted[path] | gone) == len(rows):
                actions.append(self.remove(path))
                continue
            old = self._action(path, True)
            self.deleted[path] |= gone
            data, identity, (vector,) = encode_vector_file([np.array(sorted(self.deleted[path]), np.int64)])
            (self.folder / vector_file_name(identity)).write_bytes(data)
            self._vectors[path] = vector
            actions += [{"remove": old}, {"add": self._action(path, True)}]
        return actions

    def _action(self, path: str, data_change: bool) -> dict[str, Any]:
        size = (self.folder / path).stat().st_size
        found = {
            "path": path,
            "partitionValues": self._partitions[path],
            "size": size,
            "modificationTime": 1_700_000_000_000,
            "dataChange": data_change,
            "stats": json.dumps({"numRecords": len(self.files[path])}),
        }
        return {**found, "deletionVector": self._vectors[path]} if path in self._vectors else found

    # --- files and rows

    def rows(self) -> list[Row]:
        return [row for path in self.files for row in self.live(path)]

    def live(self, path: str) -> list[Row]:
        return [row for i, row in enumerate(self.files[path]) if i not in self.deleted[path]]

    def commit_file(self, version: int) -> Path:
        return self.log / f"{version:020d}.json"

    def _name_in_files(self, name: str) -> str:
        return f"col-{self._in_files.get(name, name)}" if self._maps_names and name in self.columns else name

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _write(self, path: str, rows: Sequence[Row], columns: Mapping[str, pa.DataType]) -> None:
        file = self.folder / path
        file.parent.mkdir(exist_ok=True)
        arrays = {}
        for n, type_ in columns.items():
            values = [row.get(n) for row in rows]
            if self._maps_names:
                values, type_ = [_mapped_value(value, type_) for value in values], _mapped_type(type_)
            arrays[self._name_in_files(n)] = pa.array(values, type_)
        table = pa.table(arrays)
        pq.write_table(table, file, row_group_size=self._group_rows)


def _mapped_json(field: dict[str, Any], name: str) -> dict[str, Any]:
    return {**field, "type": _mapped_json_type(field["type"]), "metadata": {"delta.columnMapping.physicalName": name}}


def _mapped_json_type(node: Any) -> Any:
    if not isinstance(node, dict):
        return node
    if node["type"] == "struct":
        return {**node, "fields": [_mapped_json(field, f"in-{field['name']}") for field in node["fields"]]}
    return {key: _mapped_json_type(value) if key.endswith("Type") else value for key, value in node.items()}


def _mapped_value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_struct(type_):
        return {f"in-{field.name}": _mapped_value(value.get(field.name), field.type) for field in type_}
    if pa.types.is_list(type_):
        return [_mapped_value(item, type_.value_type) for item in value]
    if pa.types.is_map(type_):
        return [(_mapped_value(key, type_.key_type), _mapped_value(item, type_.item_type)) for key, item in value]
    return value


def _mapped_type(type_: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type_):
        return pa.struct([pa.field(f"in-{field.name}", _mapped_type(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_mapped_type(type_.value_type))
    if pa.types.is_map(type_):
        return pa.map_(_mapped_type(type_.key_type), _mapped_type(type_.item_type))
    return type_


def _key(row: Row) -> Any:
    return row["id"]


def _without_type(change: Row) -> Row:
    return {name: value for name, value in change.items() if name != "_change_type"}


def _text(value: Any) -> str | None:
    return None if value is None else str(value)
