"""Reads one version of a Delta, Iceberg, or Parquet table in batches: with delta-rs, PyIceberg, and Arrow, engines that share no
code with the one that wrote it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from connect.errors import ConfigError, ConnectError, NotFoundError
from connect.verification import ColumnType, KeyFilter, PartitionEvents, TargetRows, TargetTable
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import DELTA, ICEBERG, MAIN_BRANCH, SEQ, SOURCE_TS
from connectors.spark.s3_settings import S3Settings, is_s3, read_s3_settings

if TYPE_CHECKING:
    from deltalake import DeltaTable

    from connectors.spark.tables.iceberg.types import Json

_BATCH_ROWS = 20_000
_MAX_FILTER_VALUES = 20_000
_MOST_REPEATED = 1000
_DELETES = "('d', 'tombstone')"
_TOPIC, _PLACE = "__topic", ("__partition", "__offset")
_ORDER = (SEQ, SOURCE_TS)
"""What tells which events of a key are newer if they are in several partitions, the most exact first."""


@dataclass(frozen=True, slots=True)
class RowSelection:
    """Which rows of a table count. ``condition`` is SQL. ``is_log``: only the newest event of each key, if it is no delete."""

    key: tuple[str, ...]
    condition: str | None
    is_log: bool
    hidden: frozenset[str]

    def sql(self, columns: Sequence[str], types: Mapping[str, pa.DataType], only: KeyFilter | None) -> str:
        """The query of a table ``t``."""
        shown = ", ".join(map(_quoted, columns))
        conditions = [] if self.condition is None else [self.condition]
        if only is not None and only.column in self.key and _can_filter(types.get(only.column), only):
            values = ", ".join(str(value) if isinstance(value, int) else _literal(value) for value in only.values)
            conditions.append(f"{_quoted(only.column)} IN ({values})")
        where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        if not self.is_log:
            return f"SELECT {shown} FROM t{where}"
        by, places = ", ".join(map(_quoted, self.key)), ", ".join(_places(types))
        # Offsets order the events of one partition. Those of a key are in several ones after partitions were added.
        seen = [f"max({name}) OVER (PARTITION BY {by}, {places}) AS __seen{name}" for name in _order(types)]
        needed = dict.fromkeys([*columns, *self.key, "__op", *_places(types), "__offset"])
        events = f"SELECT {', '.join([*map(_quoted, needed), *seen])} FROM t{where}"
        order = [*(f"__seen{name} DESC NULLS LAST" for name in _order(types)), places, "__offset DESC"]
        newest = f"row_number() OVER (PARTITION BY {by} ORDER BY {', '.join(order)}) AS __newest"
        inner = f"SELECT {shown}, __op AS __operation, {newest} FROM ({events}) AS seen"
        return (
            f"SELECT {shown} FROM ({inner}) AS events "
            f"WHERE __newest = 1 AND (__operation IS NULL OR __operation NOT IN {_DELETES})"
        )

    def unordered_sql(self, types: Mapping[str, pa.DataType]) -> str:
        """The query that counts, as ``keys``, keys of a log of which the newest event is not known."""
        by, places = ", ".join(map(_quoted, self.key)), ", ".join(_places(types))
        seen = "".join(f", max({name}) AS __seen{name}" for name in _order(types))
        alike = "".join(f", __seen{name}" for name in _order(types))
        of_places = f"SELECT {by}{seen} FROM t GROUP BY {by}, {places}"
        keys = f"SELECT DISTINCT {by} FROM ({of_places}) AS places GROUP BY {by}{alike} HAVING count(*) > 1"
        return f"SELECT count(*) AS keys FROM ({keys}) AS unordered"


def _places(columns: Container[str]) -> list[str]:
    """The columns of a log that name the partition of an event."""
    return [name for name in (_TOPIC, _PLACE[0]) if name in columns]


def _order(columns: Container[str]) -> list[str]:
    return [name for name in _ORDER if name in columns]


def _can_filter(type_: pa.DataType | None, only: KeyFilter) -> bool:
    if type_ is None or len(only.values) > _MAX_FILTER_VALUES:
        return False
    first = next(iter(only.values), None)
    return bool(pa.types.is_integer(type_) if isinstance(first, int) else pa.types.is_string(type_))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _TableFiles(Protocol):
    """One version of a table."""

    version: str
    schema: pa.Schema
    row_count: int

    def query(self, columns: Sequence[str], selection: RowSelection, only: KeyFilter | None) -> Iterator[pa.RecordBatch]: ...

    def select(self, sql: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """Returns the result of a query of a table ``t`` with at least these columns."""
        ...


class LakeTable:
    """Implements :class:`connect.verification.TargetTable` and :class:`connect.verification.ColumnarTargetTable`."""

    def __init__(self, files: _TableFiles, selection: RowSelection) -> None:
        self._files = files
        self._selection = selection
        self.version = files.version
        self.estimated_rows = files.row_count
        self.columns = {field.name: column_type(field.type) for field in files.schema if field.name not in selection.hidden}

    def rows(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[TargetRows]:
        for batch in self.record_batches(columns, only):
            yield {name: python_values(batch.column(index)) for index, name in enumerate(columns)}

    def record_batches(self, columns: Sequence[str], only: KeyFilter | None = None) -> Iterator[pa.RecordBatch]:
        for batch in self._files.query(columns, self._selection, only):
            for start in range(0, batch.num_rows, _BATCH_ROWS):
                yield batch.slice(start, _BATCH_ROWS)

    def python_values(self, column: pa.Array) -> Sequence[Any]:
        return python_values(column)

    def close(self) -> None:
        """Does nothing: a version of a table needs no resources."""


class EventLog(LakeTable):
    """Implements :class:`connect.verification.EventTable`."""

    def partition_events(self) -> Sequence[PartitionEvents]:
        by = _places(self._files.schema.names)
        partition, offset, places = _quoted(_PLACE[0]), _quoted(_PLACE[1]), ", ".join(map(_quoted, by))
        columns = [*by, _PLACE[1]]
        counted = self._files.select(
            f"SELECT {places}, count(*) AS events, count(DISTINCT {offset}) AS offsets, min({offset}) AS first, "
            f"max({offset}) AS last FROM t GROUP BY {places} ORDER BY {partition}",
            columns,
        )
        if len(counted) > 1:
            self._require_order()
        repeated: dict[tuple[str | None, int], list[int]] = {}
        if any(one["events"] > one["offsets"] for one in counted):
            for one in self._files.select(
                f"SELECT {places}, {offset} FROM t GROUP BY {places}, {offset} HAVING count(*) > 1 ORDER BY {offset} "
                f"LIMIT {_MOST_REPEATED}",
                columns,
            ):
                repeated.setdefault((one.get(_TOPIC), one[_PLACE[0]]), []).append(one[_PLACE[1]])
        return [
            PartitionEvents(
                one.get(_TOPIC),
                one[_PLACE[0]],
                one["events"],
                one["offsets"],
                one["first"],
                one["last"],
                repeated.get((one.get(_TOPIC), one[_PLACE[0]]), ()),
            )
            for one in counted
        ]

    def _require_order(self) -> None:
        types = {field.name: field.type for field in self._files.schema}
        needed = list(dict.fromkeys([*self._selection.key, *_places(types), *_order(types)]))
        unordered = self._files.select(self._selection.unordered_sql(types), needed)[0]["keys"]
        if unordered:
            raise ConfigError(
                f"the newest event of {unordered} keys is not known: their events are in several partitions, as after partitions "
                f"were added, and the table does not tell which came later ({SEQ}, or different values of {SOURCE_TS}). Verify "
                f"an upsert table, or a new table with {SEQ} in metadata.columns"
            )


def column_type(type_: pa.DataType) -> ColumnType:
    """Returns the kind of values of an Arrow type."""
    is_ = pa.types
    if is_.is_boolean(type_):
        return ColumnType.BOOLEAN
    if is_.is_integer(type_):
        return ColumnType.INTEGER
    if is_.is_float32(type_):
        return ColumnType.FLOAT
    if is_.is_floating(type_):
        return ColumnType.DOUBLE
    if is_.is_decimal(type_):
        return ColumnType.DECIMAL
    if is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_):
        return ColumnType.TEXT
    if is_.is_binary(type_) or is_.is_large_binary(type_) or is_.is_binary_view(type_) or is_.is_fixed_size_binary(type_):
        return ColumnType.BYTES
    if is_.is_date(type_):
        return ColumnType.DATE
    if is_.is_timestamp(type_):
        return ColumnType.TIMESTAMP
    if is_.is_time(type_):
        return ColumnType.TIME
    if is_.is_list(type_) or is_.is_large_list(type_) or is_.is_list_view(type_):
        return ColumnType.ARRAY
    return ColumnType.NESTED


def python_values(column: pa.Array) -> list[Any]:
    """The values of a column. Dates are days; times and timestamps are microseconds, because Python's end with the year 9999.
    Maps are dicts, so that an empty one is no list."""
    column = _with_numbers(column)
    values = column.to_pylist()
    return [_with_dicts(value, column.type) for value in values] if _has_map(column.type) else list(values)


def _with_numbers(column: pa.Array) -> pa.Array:
    """The values with dates, times, and timestamps as numbers, also in arrays."""
    type_, lists = column.type, 0
    while pa.types.is_list(type_):
        type_, lists = type_.value_type, lists + 1
    if pa.types.is_date(type_):
        plain = pa.date32(), pa.int32()
    elif pa.types.is_timestamp(type_):
        plain = pa.timestamp("us", type_.tz), pa.int64()
    elif pa.types.is_time(type_):
        plain = pa.time64("us"), pa.int64()
    else:
        return column
    for wanted in plain:
        for _ in range(lists):
            wanted = pa.list_(wanted)
        column = column.cast(wanted)
    return column


def _has_map(type_: pa.DataType) -> bool:
    return pa.types.is_map(type_) or any(_has_map(type_.field(at).type) for at in range(type_.num_fields))


def _with_dicts(value: Any, type_: pa.DataType) -> Any:
    """The value with maps as dicts, unless their keys cannot be those of one."""
    if value is None:
        return None
    if pa.types.is_map(type_):
        pairs = [(_with_dicts(key, type_.key_type), _with_dicts(item, type_.item_type)) for key, item in value]
        try:
            return dict(pairs)
        except TypeError:
            return pairs
    if pa.types.is_struct(type_):
        return {field.name: _with_dicts(value[field.name], field.type) for field in type_}
    return [_with_dicts(one, type_.value_type) for one in value] if isinstance(value, list) else value


def _open_delta(location: str, s3: S3Settings | None) -> DeltaTable:
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

    uri = location.replace("s3a://", "s3://", 1)
    try:
        return DeltaTable(uri, storage_options=_delta_options(s3))
    except TableNotFoundError as e:
        raise NotFoundError(f"there is no Delta table at {location}") from e
    except (DeltaError, OSError) as e:
        raise ConnectError(f"the Delta table at {location} cannot be read: {e}") from e


def newest_delta_version(location: str, s3: S3Settings | None) -> int:
    """Returns the newest version of a Delta table. Raises NotFoundError."""
    return int(_open_delta(location, s3).version())


class _DeltaFiles:
    def __init__(self, location: str, s3: S3Settings | None) -> None:
        self._table = _open_delta(location, s3)
        self.version = f"version {self._table.version()}"
        self.schema = pa.schema(self._table.schema().to_arrow())
        actions = pa.table(self._table.get_add_actions(flatten=True))
        counts = actions["num_records"].to_pylist() if "num_records" in actions.column_names else []
        self.row_count = sum(count or 0 for count in counts)

    def query(self, columns: Sequence[str], selection: RowSelection, only: KeyFilter | None) -> Iterator[pa.RecordBatch]:
        from deltalake import QueryBuilder

        wanted = pa.schema([self.schema.field(name) for name in columns])
        types = {field.name: field.type for field in self.schema}
        reader = QueryBuilder().register("t", self._table).execute(selection.sql(columns, types, only))
        for batch in pa.RecordBatchReader.from_stream(reader):
            # The engine returns texts and bytes as views, for which few of Arrow's functions exist.
            yield batch.cast(wanted)

    def select(self, sql: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        from deltalake import QueryBuilder

        reader = QueryBuilder().register("t", self._table).execute(sql)
        found: list[dict[str, Any]] = pa.RecordBatchReader.from_stream(reader).read_all().to_pylist()
        return found


class _ArrowFiles(ABC):
    """A table that an engine reads into Arrow; DuckDB selects the rows."""

    version: str
    schema: pa.Schema
    row_count: int

    @abstractmethod
    def read(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        """Returns these columns of all rows."""

    def query(self, columns: Sequence[str], selection: RowSelection, only: KeyFilter | None) -> Iterator[pa.RecordBatch]:
        if selection.condition is None and not selection.is_log:
            yield from self.read(columns)
            return
        import duckdb

        needed = dict.fromkeys([*columns, *(selection.key if selection.is_log else ())])
        more = [name for name in self.schema.names if name.startswith("__") and name not in needed]
        connection = duckdb.connect()
        try:
            connection.register("t", self.read([*needed, *more]))
            types = {field.name: field.type for field in self.schema}
            wanted = pa.schema([self.schema.field(name) for name in columns])
            relation = connection.sql(selection.sql(columns, types, only))
            reader: pa.RecordBatchReader = relation.to_arrow_reader(_BATCH_ROWS)
            for batch in reader:
                yield batch.cast(wanted)
        finally:
            connection.close()

    def select(self, sql: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        import duckdb

        connection = duckdb.connect()
        try:
            connection.register("t", self.read(columns))
            found: list[dict[str, Any]] = connection.sql(sql).to_arrow_table().to_pylist()
            return found
        finally:
            connection.close()


class IcebergFiles(_ArrowFiles):
    """One version of a branch of an Iceberg table. Raises NotFoundError if the table has no such branch."""

    def __init__(self, metadata_location: str, properties: Mapping[str, str], branch: str = MAIN_BRANCH) -> None:
        from pyiceberg.table import StaticTable

        self._table = table = StaticTable.from_metadata(metadata_location, dict(properties))
        if branch != MAIN_BRANCH:
            ref = table.refs().get(branch)
            if ref is None:
                raise NotFoundError(f"the Iceberg table {table.location()} has no branch {branch}")
            # A branch is read with the table's schema, not with that of its snapshot.
            table.metadata = table.metadata.model_copy(update={"current_snapshot_id": ref.snapshot_id})
        snapshot = table.current_snapshot()
        self.version = "no snapshot" if snapshot is None else f"snapshot {snapshot.snapshot_id}"
        schema: pa.Schema = self._table.schema().as_arrow()
        self.schema = pa.schema([pa.field(field.name, _narrow(field.type)) for field in schema])
        summary = None if snapshot is None else snapshot.summary
        self.row_count = 0 if summary is None else int(summary.additional_properties.get("total-records", 0))

    def history(self) -> Iterator[Json]:
        """The snapshots of the branch, newest first: ``id`` and ``summary``."""
        by_id = {one.snapshot_id: one for one in self._table.metadata.snapshots}
        newest = self._table.current_snapshot()
        snapshot = newest and by_id.get(newest.snapshot_id)
        while snapshot is not None:
            summary = {} if snapshot.summary is None else snapshot.summary.additional_properties
            yield {"id": snapshot.snapshot_id, "summary": summary}
            parent = snapshot.parent_snapshot_id
            snapshot = None if parent is None else by_id.get(parent)

    def read(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        wanted = pa.schema([self.schema.field(name) for name in columns])
        found = self._table.scan(selected_fields=tuple(columns)).to_arrow_batch_reader()
        batches = (batch.select(list(columns)).cast(wanted) for batch in found)
        return pa.RecordBatchReader.from_batches(wanted, batches)


class _ParquetFiles(_ArrowFiles):
    def __init__(self, location: str, s3: S3Settings | None) -> None:
        from pyarrow import dataset

        from connectors.spark.tables.staging import open_location

        files, folder = open_location(location, s3, "table.location")
        open_files = partial(dataset.dataset, folder, filesystem=files, format="parquet", exclude_invalid_files=False)
        try:
            fragments = list(open_files().get_fragments())
        except FileNotFoundError as e:
            raise NotFoundError(f"there is no Parquet table at {location}") from e
        schemas = [fragment.physical_schema for fragment in fragments]
        try:
            # Older files lack columns, and nested fields, that were added later.
            schema = pa.unify_schemas(schemas, promote_options="permissive") if schemas else pa.schema([])
        except pa.ArrowException as e:
            raise ConnectError(f"the files of the Parquet table at {location} do not have the same columns: {e}") from e
        self._dataset = open_files(schema=schema)
        self.version = f"{len(self._dataset.files)} files"
        self.schema = self._dataset.schema
        self.row_count = sum(fragment.metadata.num_rows for fragment in fragments)

    def read(self, columns: Sequence[str]) -> pa.RecordBatchReader:
        return self._dataset.scanner(columns=list(columns), use_threads=False).to_reader()


def _narrow(type_: pa.DataType) -> pa.DataType:
    """The type without the wide offsets that PyIceberg uses for texts, bytes, and lists."""
    if pa.types.is_large_string(type_):
        return pa.string()
    if pa.types.is_large_binary(type_):
        return pa.binary()
    if pa.types.is_large_list(type_) or pa.types.is_list(type_):
        return pa.list_(_narrow(type_.value_type))
    return type_


def open_table(config: SparkSinkConfig, table: str, selection: RowSelection) -> TargetTable:
    """Opens the newest version of a table of a sink. Raises NotFoundError."""
    location = f"{config.location.rstrip('/')}/{table}"
    files: _TableFiles
    if config.table_format == DELTA:
        files = _DeltaFiles(location, config.spark.s3)
    elif config.table_format == ICEBERG:
        files = open_iceberg_table(config, table)
    else:
        files = _ParquetFiles(location, config.spark.s3)
    return EventLog(files, selection) if selection.is_log else LakeTable(files, selection)


def open_iceberg_table(config: SparkSinkConfig, table: str) -> IcebergFiles:
    """Opens the newest metadata of an Iceberg table. Raises NotFoundError."""
    from connectors.spark.source.errors import TableAbsentError, UnsupportedTableError
    from connectors.spark.source.iceberg import catalog
    from connectors.spark.source.iceberg.table_home import TableDirectory, TableHome
    from connectors.spark.tables.iceberg.library import IcebergName
    from connectors.spark.tables.staging import open_location

    conf = dict(config.spark.conf)
    if config.catalog:
        name = IcebergName.parse(config.catalog, table)
        home: TableHome = catalog.open_table(name.catalog, (*name.namespace, name.name), conf)
    else:
        location = f"{config.location.rstrip('/')}/{table}"
        files, folder = open_location(location, config.spark.s3, "table.location")
        home = TableDirectory(files, folder, location)
    try:
        metadata, place = home.read()
    except TableAbsentError as e:
        raise NotFoundError(e.message) from e
    except UnsupportedTableError as e:  # PyIceberg refuses all of a catalog's table for one column, which it does not name
        raise ConfigError(
            f"sluice verify cannot read the Iceberg table {table}, which may have a VARIANT column: verify a Delta table, or a "
            f"table without json.columns=variant and variant.columns ({e.message})"
        ) from e
    if variants := _variant_columns(metadata):
        raise ConfigError(
            f"sluice verify cannot read the Iceberg table {table}: its column {variants[0]} is VARIANT, which PyIceberg does not "
            "know. Verify a Delta table, or a table without json.columns=variant and variant.columns"
        )
    location = str(metadata["location"])
    s3 = config.spark.s3 or read_s3_settings(conf, location)
    if is_s3(location) and "://" not in place:
        place = f"s3://{place}"
    return IcebergFiles(place, _iceberg_properties(s3), config.of_table(table).branch)


def _variant_columns(metadata: Json) -> list[str]:
    """The columns of the table that are, or have, values of type VARIANT."""
    schemas: dict[Any, Json] = {one.get("schema-id"): one for one in metadata.get("schemas") or ()}
    schema = schemas.get(metadata.get("current-schema-id")) or metadata.get("schema") or {}
    return [field["name"] for field in schema.get("fields", ()) if _has_variant(field["type"])]


def _has_variant(type_: Any) -> bool:
    if isinstance(type_, str):
        return type_ == "variant"
    parts = [*(field["type"] for field in type_.get("fields", ())), *(type_.get(name) for name in ("element", "key", "value"))]
    return any(_has_variant(part) for part in parts if part is not None)


def _delta_options(s3: S3Settings | None) -> dict[str, str] | None:
    if s3 is None:
        return None
    found = {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_REGION": s3.region,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        "AWS_SESSION_TOKEN": s3.session_token,
        "AWS_ALLOW_HTTP": "true" if s3.endpoint.startswith("http://") else "",
        "AWS_VIRTUAL_HOSTED_STYLE_REQUEST": "false" if s3.path_style else "",
    }
    return {name: value for name, value in found.items() if value}


def _iceberg_properties(s3: S3Settings | None) -> dict[str, str]:
    if s3 is None:
        return {}
    found = {
        "s3.endpoint": s3.endpoint,
        "s3.region": s3.region,
        "s3.access-key-id": s3.access_key,
        "s3.secret-access-key": s3.secret_key,
        "s3.session-token": s3.session_token,
    }
    return {name: value for name, value in found.items() if value}
