"""Runs the query in Spark: finds the next range of the cursor, and reads its rows in an order that is always the same.

Uses DataFrames only, so that it works on local Spark, on clusters, and with Spark Connect.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from connect.errors import ConfigError, ConnectError, RetriableError, SchemaError
from connect.suggestions import did_you_mean
from connectors.spark import session
from connectors.spark.errors import error_condition, explain
from connectors.spark.plan.evolution import arrow_type, contains_variant, quote, sql_type
from connectors.spark.session.gateway import close_connection_of_thread
from connectors.spark.source.config import QUERY_TEXT, SKIP, QuerySettings
from connectors.spark.source.errors import UnsupportedTableError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.query.cursors import COLUMN, check_cursor_type
from connectors.spark.source.query.positions import CursorPosition
from connectors.spark.source.query.spool import QuerySpool, SpooledFolder
from connectors.spark.source.table_feed import TableColumn, TableSchema
from connectors.spark.source.types import column_schema
from connectors.spark.tables.files.file_columns import open_parquet
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import LiveFile
from connectors.spark.tables.files.partition_values import parse_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_ROW_GROUP_BYTES = 16 << 20
_POSITION = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_DETAILS = re.compile(r"\s*(?:== SQL|; line \d+|SQLSTATE|\n\n|\n'|JVM stacktrace)")
_EXACT_TIMES = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
_ROWS, _NULLS, _UPPER = "rows", "nulls", "upper"


@dataclass(frozen=True, slots=True)
class CursorRange:
    """The next rows of a query, sorted: by the cursor, then by key.columns, then by all other columns."""

    schema: TableSchema
    upper: str
    """The highest cursor."""
    rows: int
    source: pa.Table | SpooledFolder

    def read(self, batch_rows: int) -> Iterator[pa.Table]:
        """Yields the rows, at most ``batch_rows`` at a time."""
        columns = self.schema.file_columns()
        if isinstance(self.source, pa.Table):
            yield columns.in_file(self.source.schema).complete(self.source)
            return
        for name in self.source.names():
            with self.source.open(name) as stream:
                parquet = open_parquet(stream)
                file = LiveFile(0, {}, name, 0, parquet.metadata.num_rows)
                yield from FileRows(file).read_open(parquet, columns, batch_rows)

    def remove(self) -> None:
        """Removes what was staged."""
        if isinstance(self.source, SpooledFolder):
            self.source.remove()


class RangeReader:
    """Reads ranges of one query. ``next_range`` and ``newest`` run on one thread; ``interrupt`` may be called by any."""

    def __init__(self, query: QuerySettings, keys: tuple[str, ...], lag_ms: int, batch_rows: int, owner: str) -> None:
        """Raises ConfigError if this process already uses Spark at another address."""
        self._query = query
        self._keys = keys
        self._lag_ms = lag_ms
        self._batch_rows = batch_rows
        self._spool = QuerySpool(query.spool, owner, query.spark.s3)
        self._lease = session.lease(query.spark)
        self._session: SparkSession | None = None
        self._schemas: dict[TableSchema, TableSchema] = {}
        self.skipped_nulls = 0
        """Rows without a cursor in the last range."""
        digest = hashlib.blake2b(repr((query.text, query.cursor, keys)).encode(), digest_size=8)
        self.order = digest.hexdigest()
        """Identifies what the order of rows with equal cursors depends on."""
        self._spool.remove_abandoned()

    def next_range(self, position: CursorPosition) -> CursorRange | None:
        """The rows after a position; None if there are none. Blocks while Spark runs the query.

        Raises ConfigError for an invalid query, RetriableError if another attempt may succeed, and other ConnectErrors.
        """
        with _naming_query():
            frame, schema = self._frame()
            rows, upper = self._measure(frame, schema, position)
            if not rows or upper is None:
                return None
            found = frame.filter(self._is_after(position, schema) & (self._cursor() <= self._value(upper, schema)))
            ordered = found.orderBy(*self._sort_columns(frame, schema))
            read = self._collect if rows <= self._batch_rows else self._stage
            next_rows = read(ordered, schema, upper)
            if next_rows.rows:
                return next_rows
            next_rows.remove()  # a writer has removed the rows since they were counted
            return None

    def newest(self) -> str | None:
        """The highest cursor; None without rows. Blocks, and raises, as :meth:`next_range`."""
        with _naming_query():
            frame, schema = self._frame()
            return self._measure(frame, schema, CursorPosition(0, False))[1]

    def interrupt(self) -> None:
        """Cancels the job that runs."""
        spark = self._session
        if spark is not None:
            spark.interruptAll()

    def close_connection(self) -> None:
        """Closes the connection to Spark of the thread that ran the queries, as its last call."""
        context = getattr(self._session, "_sc", None)  # not with Spark Connect
        if context is not None:
            close_connection_of_thread(context._gateway)

    def close(self) -> None:
        """Releases Spark and removes what was staged."""
        self._lease.release()
        self._spool.remove()

    def _collect(self, ordered: DataFrame, schema: TableSchema, upper: str) -> CursorRange:
        table = ordered.toArrow()
        return CursorRange(schema, upper, table.num_rows, table)

    def _stage(self, ordered: DataFrame, schema: TableSchema, upper: str) -> CursorRange:
        folder = self._spool.new_folder()
        # Arrow cannot read each file that Spark compresses with lz4.
        writer = ordered.write.option("compression", "snappy").option("parquet.block.size", str(_ROW_GROUP_BYTES))
        try:
            writer.parquet(folder.uri)
            names = folder.names()
            if not names:
                raise ConnectError(
                    f"Spark has written rows to {folder.uri}, where the worker finds none: source.spool.location must be "
                    "reachable under the same name from the worker and from all executors"
                )
            rows = 0
            for name in names:
                with folder.open(name) as stream:
                    rows += pq.read_metadata(stream).num_rows
        except BaseException:
            folder.remove()
            raise
        return CursorRange(schema, upper, rows, folder)

    # --- the query

    def _frame(self) -> tuple[DataFrame, TableSchema]:
        if self._session is None or not self._lease.is_alive():
            self._session = self._lease.session()
        # In a subquery, a statement that changes something is an error.
        text = f"SELECT * FROM (\n{self._query.text.strip().rstrip(';')}\n)"
        frame = self._session.sql(text)
        schema = self._schema(_fields_of(frame))
        return frame, self._schemas.setdefault(schema, schema)

    def _schema(self, fields: list[Mapping[str, Any]]) -> TableSchema:
        columns: dict[str, TableColumn] = {}
        for member in fields:
            name = member["name"]
            if name in columns:
                raise ConfigError(f"{QUERY_TEXT} returns two columns {name}; rename one of them (AS)", key=QUERY_TEXT)
            try:
                type_ = arrow_type(member["type"])
                if contains_variant(type_):
                    raise SchemaError("VARIANT is not supported")
                column_schema(type_)
            except SchemaError as e:
                raise UnsupportedTableError(
                    f"column {name} of {QUERY_TEXT} cannot be read: {e}. Give it another type in the query (CAST, to_json)"
                ) from e
            columns[name] = TableColumn(name, type_, bool(member.get("nullable", True)))
        cursor = self._query.cursor
        if cursor not in columns:
            raise ConfigError(
                f"{QUERY_TEXT} returns no column {cursor} ({COLUMN}){did_you_mean(cursor, columns, '; ')}", key=COLUMN
            )
        metadata = next(member.get("metadata") or {} for member in fields if member["name"] == cursor)
        check_cursor_type(cursor, columns[cursor].type, metadata)
        schema = TableSchema(tuple(columns.values()))
        check_keys(self._keys, schema, QUERY_TEXT)
        return schema

    def _measure(self, frame: DataFrame, schema: TableSchema, position: CursorPosition) -> tuple[int, str | None]:
        """The number of rows after a position, and the highest cursor among them. Raises ConnectError for rows without one."""
        from pyspark.sql import functions as F

        cursor = self._cursor()
        has_settled = cursor.isNotNull()
        limit = self._limit(schema)
        if limit is not None:
            has_settled = has_settled & (cursor <= limit)
        counted = frame.filter(self._is_after(position, schema) | cursor.isNull()).agg(
            F.count(F.when(has_settled, 1)).alias(_ROWS),
            F.count(F.when(cursor.isNull(), 1)).alias(_NULLS),
            F.max(F.when(has_settled, cursor)).cast("string").alias(_UPPER),
        )
        (found,) = counted.toArrow().to_pylist()
        self.skipped_nulls = found[_NULLS]
        if found[_NULLS] and self._query.on_null != SKIP:
            raise ConnectError(
                f"{found[_NULLS]} rows of {QUERY_TEXT} have no value in {self._query.cursor} ({COLUMN}), so they would never be "
                f"read. Filter them (WHERE {quote(self._query.cursor)} IS NOT NULL), give them a value (COALESCE), or set "
                "cursor.on.null=skip to count them only"
            )
        return found[_ROWS], found[_UPPER]

    def _cursor(self) -> Column:
        from pyspark.sql import functions as F

        return F.col(quote(self._query.cursor))

    def _value(self, text: str, schema: TableSchema) -> Column:
        from pyspark.sql import functions as F

        return F.lit(text).cast(sql_type(self._cursor_type(schema)))

    def _is_after(self, position: CursorPosition, schema: TableSchema) -> Column:
        from pyspark.sql import functions as F

        if position.cursor is None:
            return F.lit(True)
        self._check_position(position.cursor, schema)
        value = self._value(position.cursor, schema)
        return self._cursor() > value if position.row is None else self._cursor() >= value

    def _check_position(self, text: str, schema: TableSchema) -> None:
        type_ = self._cursor_type(schema)
        try:
            parse_text(text, type_)
        except ValueError as e:
            raise ConnectError(
                f"the stored cursor {text!r} is no value of {self._query.cursor}, which is {sql_type(type_)}: {e}. Stop the "
                "connector and PATCH or DELETE its offset"
            ) from e

    def _cursor_type(self, schema: TableSchema) -> pa.DataType:
        return schema.types[self._query.cursor]

    def _limit(self, schema: TableSchema) -> Column | None:
        """The time that rows must have reached; None if the cursor is no time."""
        if not pa.types.is_timestamp(self._cursor_type(schema)):
            return None
        at = dt.datetime.now(dt.UTC) - dt.timedelta(milliseconds=self._lag_ms)
        return self._value(at.strftime("%Y-%m-%d %H:%M:%S.%f"), schema)

    def _sort_columns(self, frame: DataFrame, schema: TableSchema) -> list[Column]:
        from pyspark.sql import functions as F

        types, collated = schema.types, _collated_columns(frame)
        names = dict.fromkeys([self._query.cursor, *self._keys, *types])
        # Maps have no order; their texts do.
        order = [F.to_json(F.col(quote(n))) if _contains(types[n], pa.types.is_map) else F.col(quote(n)) for n in names]
        # Values that differ may be equal in this order: texts by their collation, 0.0 and -0.0, times in the texts of maps.
        inexact = [n for n in names if n in collated or _contains(types[n], _is_inexact)]
        return [*order, F.to_json(F.struct(*(F.col(quote(n)) for n in inexact)), _EXACT_TIMES)] if inexact else order


def _fields_of(frame: DataFrame) -> list[Mapping[str, Any]]:
    fields: list[Mapping[str, Any]] = json.loads(frame.schema.json())["fields"]
    return fields


def _collated_columns(frame: DataFrame) -> set[str]:
    """The columns with texts, or with texts inside, that have a collation: Spark says it in the metadata of fields."""
    return {member["name"] for member in _fields_of(frame) if "COLLATION" in json.dumps(member)}


def _is_inexact(type_: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type_) or pa.types.is_map(type_))


def _contains(type_: pa.DataType, is_wanted: Callable[[pa.DataType], bool]) -> bool:
    inner = [type_.field(at).type for at in range(type_.num_fields)]
    return is_wanted(type_) or any(_contains(one, is_wanted) for one in inner)


@contextlib.contextmanager
def _naming_query() -> Iterator[None]:
    """Turns errors of Spark into errors that name the place in the query."""
    try:
        yield
    except ConnectError:
        raise
    except Exception as e:
        raise _query_error(e) from e


def _query_error(error: Exception) -> ConnectError:
    explained = explain(error, f"{QUERY_TEXT} failed")
    if isinstance(explained, RetriableError) or not error_condition(error):
        return explained
    text = str(error).strip()
    found = _POSITION.search(text)
    place = ""
    if found is not None:
        # The query starts in the second line of the statement. "pos" counts from 0.
        place = f" (line {int(found[1]) - 1}, position {int(found[2]) + ('position' not in found[0])})"
    details = _DETAILS.search(text)
    said = " ".join((text[: details.start()] if details else text).split())
    return ConfigError(f"{QUERY_TEXT}: {said}{place}", key=QUERY_TEXT)
