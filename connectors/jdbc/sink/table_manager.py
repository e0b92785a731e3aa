"""The tables that records need: looked up, created, given the columns they lack."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from connect.data.schema import Schema
from connect.errors import ConnectError, RetriableError, SchemaError
from connect.suggestions import nearest
from connectors.jdbc.catalog import Column, Table
from connectors.jdbc.connection.database import Session
from connectors.jdbc.dialects.dialect import RowWriter
from connectors.jdbc.dialects.lossless import strict_writer
from connectors.jdbc.errors import LoginError
from connectors.jdbc.options import SinkField
from connectors.jdbc.sink.ddl import created_fields
from connectors.jdbc.sink.row_changes import Operation, Shape
from connectors.jdbc.sink.writer_config import SinkSettings
from connectors.jdbc.sql import Sql
from connectors.jdbc.table_name import TableName

log = logging.getLogger(__name__)

_KINDS = ("TABLE", "VIEW", "PARTITIONED TABLE")


class Tables:
    """What is known of the tables of one task, and the writers made for them. A new table or column is committed at once: it
    stays when the records that asked for it are rolled back, and other tasks do not wait for it."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        self._known: dict[TableName, Table] = {}
        self._writers: dict[Shape, RowWriter] = {}

    def forget(self) -> None:
        """Everything is looked up anew when it is needed next."""
        self._known.clear()
        self._writers.clear()

    def writer(self, session: Session, shape: Shape) -> RowWriter | None:
        """What writes (or deletes) rows of this shape. None: there is no such table yet, so that there is nothing to delete.

        May create or alter the table, so nothing that is not committed may be under way. Raises SchemaError when table and
        records do not fit and may not be made to.
        """
        found = self._writers.get(shape)
        if found is not None:
            return found
        table = self._table(session, shape)
        if table is None:
            return None
        fields = tuple(self._to_columns(table, shape.fields))
        options = self._settings.write
        if shape.operation is Operation.DELETE:
            made = session.dialect.deleter(table, fields, options)
        else:
            made = session.dialect.writer(table, fields, shape.insert_mode or self._settings.insert_mode, options)
        made = strict_writer(made, session.dialect, table, fields, options)
        self._writers[shape] = made
        return made

    def exists(self, session: Session, name: TableName) -> bool:
        return name in self._known or session.dialect.describe(session, name) is not None

    def _table(self, session: Session, shape: Shape) -> Table | None:
        table = self._known.get(shape.table) or session.dialect.describe(session, shape.table)
        if table is None:
            if shape.operation is not Operation.WRITE and self._settings.creates_tables:
                return None
            table = self._created(session, shape)
        self._check_kind(table)
        if _missing(table, shape.fields):
            table = self._evolved(session, shape)
        self._known[shape.table] = table
        return table

    def _check_kind(self, table: Table) -> None:
        allowed = self._settings.table_kinds
        if allowed is not None and table.kind not in allowed:
            raise SchemaError(
                f"{_quoted(table.name)} is a {table.kind}, and table.types has {', '.join(sorted(allowed))} only; "
                f"add {table.kind} to table.types to write to it"
            )

    def _created(self, session: Session, shape: Shape) -> Table:
        if not self._settings.creates_tables:
            raise SchemaError(
                f"Table {_quoted(shape.table)} is missing and auto-creation is disabled{self._instead(session, shape)}"
            )
        statement = session.dialect.create_table(shape.table, self._to_create(shape.fields))
        log.info("Creating table with sql: %s", statement.text)
        failure: ConnectError | None = None
        try:
            _change(session, [statement], f"creating table {shape.table}")
        except RetriableError:
            raise
        except LoginError as e:
            # MySQL's word for a schema that is not there, or not this user's.
            raise e if shape.table.schema is None else _with_dots_explained(e) from e
        except ConnectError as e:
            failure = e  # perhaps another task has created it meanwhile
        table = session.dialect.describe(session, shape.table)
        if table is None and failure is not None and shape.table.schema is not None:
            raise _with_dots_explained(failure) from failure
        if table is None:
            raise failure or ConnectError(f"Table {_quoted(shape.table)} was created in {session.label} and is not there")
        if failure is not None:
            log.info("Table %s was created by another task: %s", shape.table, failure.message)
        return table

    def _instead(self, session: Session, shape: Shape) -> str:
        known = [str(name) for name, _ in session.dialect.tables(session, _KINDS)]
        alike = (name for name in known if name.rpartition(".")[2].lower() == shape.table.name.lower())
        near = nearest(str(shape.table), known) or next(alike, None)
        hint = f" (the nearest name in {session.label} is {near})" if near else ""
        return f"{hint}; create it, or set {self._settings.creating_key}"

    def _evolved(self, session: Session, shape: Shape) -> Table:
        """The table with a column for every field, after a look at what it has now: other tasks add columns too."""
        failure: ConnectError | None = None
        failed: list[SinkField] = []
        while True:
            table = session.dialect.describe(session, shape.table)
            if table is None:
                table = self._created(session, shape)
            missing = _missing(table, shape.fields)
            if not missing:
                return table
            self._check_addable(shape.table, table, missing)
            if failure is not None and missing == failed:
                raise failure
            statements = session.dialect.add_columns(table, self._to_create(missing))
            shown = "; ".join(statement.text for statement in statements)
            log.info("Amending table to add missing fields:%s with SQL: %s", [field.name for field in missing], shown)
            try:
                _change(session, statements, f"adding columns to {shape.table}")
            except (RetriableError, LoginError):
                raise
            except ConnectError as e:
                # Perhaps another task adds columns as well. Each turn has fewer that are missing, or is the last.
                log.info("Columns could not be added to %s, which is looked at again: %s", shape.table, e.message)
                failure, failed = e, missing

    def _to_create(self, fields: Sequence[SinkField]) -> list[SinkField]:
        return created_fields(fields, self._settings.write, semantic=self._settings.knows_type_names)

    def _check_addable(self, wanted: TableName, table: Table, missing: Sequence[SinkField]) -> None:
        """Raises SchemaError in the originals' words."""
        name = _quoted(wanted)
        listed = ", ".join(map(_described, missing))
        nearest = _nearest(table, missing)
        if table.kind == "VIEW":
            raise SchemaError(
                f"View {name} is missing fields ({listed}), and columns cannot be added to a view{nearest}; change the view, or "
                "leave the fields out (fields.whitelist)"
            )
        for field in missing:
            if (field.is_key or not field.schema.optional) and field.schema.default is None:
                raise SchemaError(
                    f"Cannot ALTER to add missing field {_described(field)}, as it is not optional and does not have a default "
                    f"value (table {name}, which has {_columns(table)}){nearest}; add the column to the table by hand, or "
                    "make the field optional where the records come from"
                )
        if not self._settings.adds_columns:
            raise SchemaError(
                f"Table {name} is missing fields ([{listed}]) and auto-evolution is disabled (it has {_columns(table)}){nearest}"
                f"; add the columns, or set {self._settings.adding_key}"
            )

    @staticmethod
    def _to_columns(table: Table, fields: Sequence[SinkField]) -> list[SinkField]:
        """The fields under the names of their columns, which may differ in case."""
        found: list[SinkField] = []
        taken: dict[str, str] = {}
        for field in fields:
            column = table.column(field.name)
            assert column is not None  # _evolved has seen to it
            _check_writable(table, column, field)
            if column.name in taken:
                raise SchemaError(
                    f"Fields {taken[column.name]} and {field.name} are both for column {column.name} of {_quoted(table.name)}"
                )
            taken[column.name] = field.name
            found.append(replace(field, name=column.name))
        return found


def _check_writable(table: Table, column: Column, field: SinkField) -> None:
    if column.generated:
        raise SchemaError(
            f"Column {column.name} of {_quoted(table.name)} is computed by the database, so that field {field.name} cannot be "
            "written to it; leave it out (fields.whitelist, or ReplaceField)"
        )


def _change(session: Session, statements: Sequence[Sql], doing: str) -> None:
    session.rollback()  # a transaction that has read might have to wait for one that waits for it
    try:
        for statement in statements:
            session.execute(statement, doing)
        session.commit()
    except BaseException:
        session.rollback()
        raise


def _missing(table: Table, fields: Sequence[SinkField]) -> list[SinkField]:
    return [field for field in fields if table.column(field.name) is None]


def _nearest(table: Table, missing: Sequence[SinkField]) -> str:
    names = [column.name for column in table.columns]
    found = [(field.name, nearest(field.name, names)) for field in missing]
    hints = [f"{near} for {name}" for name, near in found if near]
    return f"; the nearest columns are {', '.join(hints)}" if hints else ""


def _columns(table: Table, most: int = 20) -> str:
    names = [column.name for column in table.columns]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _quoted(name: TableName) -> str:
    return ".".join(f'"{part}"' for part in (name.catalog, name.schema, name.name) if part is not None)


def _described(field: SinkField) -> str:
    """As the originals print a field."""
    key = "true" if field.is_key else "false"
    return f"SinkRecordField{{schema={_shown(field.schema)}, name='{field.name}', isPrimaryKey={key}}}"


def _shown(schema: Schema) -> str:
    return f"Schema{{{schema.name}:{schema.type.name}}}" if schema.name else f"Schema{{{schema.type.name}}}"


def _with_dots_explained(failure: ConnectError) -> ConnectError:
    """Topics have dots in their names more often than databases have schemas of that name."""
    return type(failure)(
        f"{failure.message}; a dot separates schema and table: where it is part of a name, quote the name in its format, "
        'as in "${topic}", or take it out of the topic with RegexRouter'
    )
