"""Schema change events (``include.schema.changes``): records of the topic that ``topic.prefix`` names, as Debezium has them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.record import SourceRecord
from connectors.mysql.schema.ddl.changes import TableDdlChange
from connectors.mysql.schema.history.records import StoredChange, column_document, format_table_id, stored_changes
from connectors.mysql.schema.model import Column, MySqlTable

_OPTIONAL_STRINGS = Schema(Type.ARRAY, optional=True, value_schema=Schema.STRING)


class SchemaChangeEvents:
    """Creates the keys and values of schema change events of one connector."""

    def __init__(
        self, connector: str, source: Schema, *, adjust: Callable[[str], str] = str, include_comments: bool = False
    ) -> None:
        """``connector`` is ``mysql`` or ``mariadb``, ``source`` the schema of its source block, and ``adjust`` changes the names
        of schemas (``schema.name.adjustment.mode``). ``include_comments`` is ``include.schema.comments``."""
        self._comments = include_comments
        self._column = (
            SchemaBuilder.struct()
            .name(adjust("io.debezium.connector.schema.Column"))
            .version(1)
            .field("name", Schema.STRING)
            .field("jdbcType", Schema.INT32)
            .field("nativeType", Schema.OPTIONAL_INT32)
            .field("typeName", Schema.STRING)
            .field("typeExpression", Schema.OPTIONAL_STRING)
            .field("charsetName", Schema.OPTIONAL_STRING)
            .field("length", Schema.OPTIONAL_INT32)
            .field("scale", Schema.OPTIONAL_INT32)
            .field("position", Schema.INT32)
            .field("optional", Schema.OPTIONAL_BOOLEAN)
            .field("autoIncremented", Schema.OPTIONAL_BOOLEAN)
            .field("generated", Schema.OPTIONAL_BOOLEAN)
            .field("comment", Schema.OPTIONAL_STRING)
            .field("defaultValueExpression", Schema.OPTIONAL_STRING)
            .field("enumValues", _OPTIONAL_STRINGS)
            .build()
        )
        self._table = (
            SchemaBuilder.struct()
            .name(adjust("io.debezium.connector.schema.Table"))
            .version(1)
            .field("defaultCharsetName", Schema.OPTIONAL_STRING)
            .field("primaryKeyColumnNames", _OPTIONAL_STRINGS)
            .field("columns", Schema(Type.ARRAY, value_schema=self._column))
            .field("comment", Schema.OPTIONAL_STRING)
            .optional()
            .build()
        )
        self._change = (
            SchemaBuilder.struct()
            .name(adjust("io.debezium.connector.schema.Change"))
            .version(1)
            .field("type", Schema.STRING)
            .field("id", Schema.STRING)
            .field("table", self._table)
            .build()
        )
        self.key_schema = (
            SchemaBuilder.struct()
            .name(adjust(f"io.debezium.connector.{connector}.SchemaChangeKey"))
            .version(1)
            .field("databaseName", Schema.STRING)
            .build()
        )
        self.value_schema = (
            SchemaBuilder.struct()
            .name(adjust(f"io.debezium.connector.{connector}.SchemaChangeValue"))
            .version(1)
            .field("source", source)
            .field("ts_ms", Schema.INT64)
            .field("databaseName", Schema.OPTIONAL_STRING)
            .field("schemaName", Schema.OPTIONAL_STRING)
            .field("ddl", Schema.OPTIONAL_STRING)
            .field("tableChanges", Schema(Type.ARRAY, value_schema=self._change))
            .build()
        )

    def key(self, database: str | None) -> Struct:
        """Returns the key; the database is empty for statements without one, such as SET."""
        return Struct(self.key_schema, [database or ""])

    def value(self, source: Struct, database: str | None, ddl: str, changes: Iterable[TableDdlChange], *, ts_ms: int) -> Struct:
        """Returns the value. ``ts_ms`` is the time at which the connector processes the statement."""
        structs = [self._change_struct(change) for change in stored_changes(changes)]
        return Struct(self.value_schema, [source, ts_ms, database or "", None, ddl, structs])

    def record(
        self,
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        topic: str,
        source: Struct,
        database: str | None,
        ddl: str,
        changes: Iterable[TableDdlChange],
        *,
        ts_ms: int,
    ) -> SourceRecord:
        """Returns the record of a statement; the parameters after ``topic`` are those of :meth:`value`."""
        value = self.value(source, database, ddl, changes, ts_ms=ts_ms)
        return SourceRecord(partition, offset, topic, 0, self.key_schema, self.key(database), self.value_schema, value)

    def _change_struct(self, change: StoredChange) -> Struct:
        table = None if change.table is None else self._table_struct(change.table)
        return Struct(self._change, [change.type, format_table_id(change.id), table])

    def _table_struct(self, table: MySqlTable) -> Struct:
        columns = [self._column_struct(column) for column in table.columns]
        comment = table.comment if self._comments else None
        return Struct(self._table, [table.charset, list(table.key), columns, comment])

    def _column_struct(self, column: Column) -> Struct:
        members = column_document(column, comments=self._comments)
        members["enumValues"] = members["enumValues"] or None
        assert self._column.fields is not None
        return Struct(self._column, [members.get(field.name) for field in self._column.fields])
