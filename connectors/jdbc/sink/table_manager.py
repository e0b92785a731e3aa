"""Describes, creates and evolves the tables that records are written to."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from connect.data.schema import Schema
from connect.errors import ConnectError, RetriableError, SchemaError
from connect.suggestions import list_names, nearest
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.database import Session
from connectors.jdbc.dialects.dialect import RowWriter
from connectors.jdbc.dialects.lossless import strict_writer
from connectors.jdbc.errors import AuthenticationError
from connectors.jdbc.options import SinkField
from connectors.jdbc.sink.config import SinkWriterConfig
from connectors.jdbc.sink.ddl import resolve_new_fields
from connectors.jdbc.sink.row_changes import Operation, RowShape
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_LISTED_TYPES = ("TABLE", "VIEW", "PARTITIONED TABLE")


class TableManager:
    """Caches the tables of one task and their writers. A new table or column is committed at once, so it stays when its records
    are rolled back, and other tasks do not wait for it."""

    def __init__(self, settings: SinkWriterConfig) -> None:
        self._settings = settings
        self._known: dict[TableName, JdbcTable] = {}
        self._writers: dict[RowShape, RowWriter] = {}

    def forget(self) -> None:
        """Empties the cache."""
        self._known.clear()
        self._writers.clear()

    def writer(self, session: Session, shape: RowShape) -> RowWriter | None:
        """Returns the writer (or deleter) for rows of this shape; None if there is no table yet, so nothing to delete.

        May create or alter the table, so there must be no open transaction. Raises SchemaError if table and records do not fit.
        """
        found = self._writers.get(shape)
        if found is not None:
            return found
        table = self._prepare_table(session, shape)
        if table is None:
            return None
        fields = tuple(self._rename_to_columns(table, shape.fields))
        options = self._settings.write
        if shape.operation is Operation.DELETE:
            writer = session.dialect.deleter(table, fields, options)
        else:
            writer = session.dialect.writer(table, fields, shape.insert_mode or self._settings.insert_mode, options)
        writer = strict_writer(writer, session.dialect, table, fields, options)
        self._writers[shape] = writer
        return writer

    def exists(self, session: Session, name: TableName) -> bool:
        return name in self._known or session.dialect.describe(session, name) is not None

    def _prepare_table(self, session: Session, shape: RowShape) -> JdbcTable | None:
        table = self._known.get(shape.table) or session.dialect.describe(session, shape.table)
        if table is None:
            if shape.operation is not Operation.WRITE and self._settings.creates_tables:
                return None
            table = self._create(session, shape)
        self._check_table_type(table)
        if _missing(table, shape.fields):
            table = self._evolve(session, shape)
        self._known[shape.table] = table
        return table

    def _check_table_type(self, table: JdbcTable) -> None:
        allowed = self._settings.table_types
        if allowed is not None and table.kind not in allowed:
            raise SchemaError(
                f"{_format_name(table.name)} is a {table.kind}, and table.types has {', '.join(sorted(allowed))} only; "
                f"add {table.kind} to table.types to write to it"
            )

    def _create(self, session: Session, shape: RowShape) -> JdbcTable:
        if not self._settings.creates_tables:
            raise SchemaError(
                f"Table {_format_name(shape.table)} is missing and auto-creation is disabled{self._suggest_table(session, shape)}"
            )
        statement = session.dialect.create_table(shape.table, self._new_columns(shape.fields))
        log.info("Creating table with sql: %s", statement.text)
        failure: ConnectError | None = None
        try:
            _execute_ddl(session, [statement], f"creating table {shape.table}")
        except RetriableError:
            raise
        except AuthenticationError as e:
            # MySQL reports a missing schema, or one that the user may not see, as an authentication error.
            raise e if shape.table.schema is None else _explain_dots(e) from e
        except ConnectError as e:
            failure = e  # another task may have created it
        table = session.dialect.describe(session, shape.table)
        if table is None and failure is not None and shape.table.schema is not None:
            raise _explain_dots(failure) from failure
        if table is None:
            raise failure or ConnectError(f"Table {_format_name(shape.table)} was created in {session.label} but does not exist")
        if failure is not None:
            log.info("Table %s was created by another task: %s", shape.table, failure.message)
        return table

    def _suggest_table(self, session: Session, shape: RowShape) -> str:
        known = [str(name) for name, _ in session.dialect.tables(session, _LISTED_TYPES)]
        same_name = (name for name in known if name.rpartition(".")[2].lower() == shape.table.name.lower())
        near = nearest(str(shape.table), known) or next(same_name, None)
        hint = f" (the nearest name in {session.label} is {near})" if near else ""
        return f"{hint}; create it, or set {self._settings.create_setting}"

    def _evolve(self, session: Session, shape: RowShape) -> JdbcTable:
        """Adds missing columns; describes the table again first, because other tasks add columns too."""
        failure: ConnectError | None = None
        failed: list[SinkField] = []
        while True:
            table = session.dialect.describe(session, shape.table)
            if table is None:
                table = self._create(session, shape)
            missing = _missing(table, shape.fields)
            if not missing:
                return table
            self._check_addable(shape.table, table, missing)
            if failure is not None and missing == failed:
                raise failure
            statements = session.dialect.add_columns(table, self._new_columns(missing))
            shown = "; ".join(statement.text for statement in statements)
            log.info("Amending table to add missing fields:%s with SQL: %s", [field.name for field in missing], shown)
            try:
                _execute_ddl(session, statements, f"adding columns to {shape.table}")
            except (RetriableError, AuthenticationError):
                raise
            except ConnectError as e:
                # Another task may be adding columns. The loop ends unless fewer columns are missing each time.
                log.info("Adding columns to %s failed; describing it again: %s", shape.table, e.message)
                failure, failed = e, missing

    def _new_columns(self, fields: Sequence[SinkField]) -> list[SinkField]:
        return resolve_new_fields(fields, self._settings.write, semantic=self._settings.uses_semantic_types)

    def _check_addable(self, wanted: TableName, table: JdbcTable, missing: Sequence[SinkField]) -> None:
        """Raises SchemaError, with Confluent's messages, if the columns may not be added."""
        name = _format_name(wanted)
        listed = ", ".join(map(_format_field, missing))
        nearest = _nearest(table, missing)
        if table.kind == "VIEW":
            raise SchemaError(
                f"View {name} is missing fields ({listed}), and columns cannot be added to a view{nearest}; change the view, or "
                "leave the fields out (fields.whitelist)"
            )
        for field in missing:
            if (field.is_key or not field.schema.optional) and field.schema.default is None:
                raise SchemaError(
                    f"Cannot ALTER to add missing field {_format_field(field)}, as it is not optional and does not have a "
                    f"default value (table {name}, which has {_list_columns(table)}){nearest}; add the column yourself, or "
                    "make the field optional at the source"
                )
        if not self._settings.adds_columns:
            raise SchemaError(
                f"Table {name} is missing fields ([{listed}]) and auto-evolution is disabled (it has {_list_columns(table)})"
                f"{nearest}; add the columns, or set {self._settings.evolve_setting}"
            )

    @staticmethod
    def _rename_to_columns(table: JdbcTable, fields: Sequence[SinkField]) -> list[SinkField]:
        """Returns the fields with the names of their columns, which may differ in case."""
        found: list[SinkField] = []
        field_by_column: dict[str, str] = {}
        for field in fields:
            column = table.column(field.name)
            assert column is not None  # _evolve added it
            _check_writable(table, column, field)
            if column.name in field_by_column:
                raise SchemaError(
                    f"Fields {field_by_column[column.name]} and {field.name} both go to column {column.name} of "
                    f"{_format_name(table.name)}"
                )
            field_by_column[column.name] = field.name
            found.append(replace(field, name=column.name))
        return found


def _check_writable(table: JdbcTable, column: JdbcColumn, field: SinkField) -> None:
    if column.generated:
        raise SchemaError(
            f"Column {column.name} of {_format_name(table.name)} is computed by the database, so field {field.name} cannot be "
            "written to it; leave the field out (fields.whitelist, or ReplaceField)"
        )


def _execute_ddl(session: Session, statements: Sequence[Sql], doing: str) -> None:
    session.rollback()  # an open transaction that has read could deadlock with the DDL of another task
    try:
        for statement in statements:
            session.execute(statement, doing)
        session.commit()
    except BaseException:
        session.rollback()
        raise


def _missing(table: JdbcTable, fields: Sequence[SinkField]) -> list[SinkField]:
    return [field for field in fields if table.column(field.name) is None]


def _nearest(table: JdbcTable, missing: Sequence[SinkField]) -> str:
    names = [column.name for column in table.columns]
    found = [(field.name, nearest(field.name, names)) for field in missing]
    hints = [f"{near} for {name}" for name, near in found if near]
    return f"; the nearest columns are {', '.join(hints)}" if hints else ""


def _list_columns(table: JdbcTable) -> str:
    return list_names([column.name for column in table.columns], 20)


def _format_name(name: TableName) -> str:
    return ".".join(f'"{part}"' for part in (name.catalog, name.schema, name.name) if part is not None)


def _format_field(field: SinkField) -> str:
    """Formats a field like Confluent's connector."""
    key = "true" if field.is_key else "false"
    return f"SinkRecordField{{schema={_format_schema(field.schema)}, name='{field.name}', isPrimaryKey={key}}}"


def _format_schema(schema: Schema) -> str:
    return f"Schema{{{schema.name}:{schema.type.name}}}" if schema.name else f"Schema{{{schema.type.name}}}"


def _explain_dots(failure: ConnectError) -> ConnectError:
    """Adds a hint, because a dot in a topic is rarely meant to separate schema and table."""
    return type(failure)(
        f"{failure.message}; a dot separates schema and table. If it is part of the name, quote the name in its format, "
        'as in "${topic}", or remove the dot from the topic with RegexRouter'
    )
