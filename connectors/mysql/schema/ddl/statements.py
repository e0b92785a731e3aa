"""Applies DDL statements to tables."""

from __future__ import annotations

import re
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from dataclasses import replace
from typing import Final, cast

from connectors.mysql.connection import quote_name
from connectors.mysql.schema.ddl.alter_table import Alteration, altered_table, parse_alteration, renamed_table
from connectors.mysql.schema.ddl.changes import Change, DatabaseChange, DdlKind, TableDdlChange
from connectors.mysql.schema.ddl.context import DdlContext
from connectors.mysql.schema.ddl.create_table import build_table, copy_table, parse_created_table
from connectors.mysql.schema.ddl.data_types import accept_charset_words, parse_charset, parse_collation_charset
from connectors.mysql.schema.ddl.errors import DdlSyntaxError, UnparsedDdlError
from connectors.mysql.schema.ddl.keys import KeyDefinition, parse_key_parts
from connectors.mysql.schema.ddl.tokens import Cursor, DdlToken, tokenize
from connectors.mysql.schema.model import MySqlTable, TableId

_OTHER_WORDS: Final = frozenset({
    "ANALYZE", "BACKUP", "BEGIN", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "CLONE", "COMMENT",
    "COMMIT", "DEALLOCATE", "DELETE", "DESC", "DESCRIBE", "DO", "END", "EXECUTE", "EXPLAIN", "FLUSH", "GET", "GRANT",
    "HANDLER", "HELP", "IMPORT", "INSERT", "INSTALL", "KILL", "LOAD", "LOCK", "OPTIMIZE", "PREPARE", "PURGE",
    "RELEASE", "REPAIR", "REPLACE", "RESET", "RESTART", "RESIGNAL", "REVOKE", "ROLLBACK", "SAVEPOINT", "SELECT",
    "SHOW", "SHUTDOWN", "SIGNAL", "START", "STOP", "TABLE", "UNINSTALL", "UNLOCK", "UPDATE", "VALUES", "WITH", "XA",
})  # fmt: skip
_NO_TABLES: Final = frozenset({
    "AGGREGATE", "ALGORITHM", "DEFINER", "EVENT", "FUNCTION", "INSTANCE", "LIBRARY", "LOGFILE", "MASKING", "PACKAGE",
    "PREPARE", "PROCEDURE", "RESOURCE", "ROLE", "SEQUENCE", "SERVER", "SPATIAL", "SQL", "TABLESPACE", "TRIGGER",
    "UNDO", "USER", "VIEW",
})  # fmt: skip
"""What follows CREATE, ALTER, or DROP of objects that are no tables. CREATE SPATIAL INDEX changes no key."""
_UNKNOWN_SERVER: Final = DdlContext()
_ROUTINES: Final = frozenset({"PROCEDURE", "FUNCTION", "TRIGGER", "EVENT", "PACKAGE", "LIBRARY"})
_FIRST_WORD = re.compile(r"(?:\s++|#[^\n]*+(?:\n|$)|--(?:[ \t][^\n]*+)?(?:\n|$)|/\*(?!M?!).*?\*/|\()*+([A-Za-z]+)", re.DOTALL)
_LATER_DDL = re.compile(r";\s*+(?:CREATE|ALTER|DROP|RENAME|TRUNCATE)\b", re.IGNORECASE)


def apply(
    tables: Mapping[TableId, MySqlTable],
    text: str,
    default_database: str | None,
    context: DdlContext = _UNKNOWN_SERVER,
    *,
    error_code: int = 0,
) -> list[Change]:
    """Returns what the statements of a text change, in order; nothing for statements that concern no table and no database.

    Changes neither ``tables`` nor the context; :func:`connectors.mysql.schema.ddl.changes.apply_changes` does. A text that is
    no DDL, such as a change of rows or BEGIN, has no changes. ``error_code`` is that of the QUERY event: a server logs a failed
    statement if part of it was done, like CREATE OR REPLACE TABLE of MariaDB, which drops the table first.

    Raises UnparsedDdlError for a statement that is not understood.
    """
    match = _FIRST_WORD.match(text)
    if match is not None and match[1].upper() in _OTHER_WORDS and not _LATER_DDL.search(text):
        return []  # statements about rows may be large
    try:
        tokens = tokenize(text, context)
    except DdlSyntaxError as e:
        raise UnparsedDdlError(text.strip(), e.message) from e
    session = _Session(tables, default_database, context, error_code)
    failures: list[UnparsedDdlError] = []
    for statement in _split(tokens):
        try:
            session.apply(Cursor(statement, text))
        except UnparsedDdlError as e:
            failures.append(e)
    if not failures:
        return session.changes
    # No statement of the text is applied.
    named = session.concerned if all(failure.tables for failure in failures) else ()
    raise UnparsedDdlError(failures[0].statement, failures[0].reason, tuple(dict.fromkeys(named))) from failures[0]


def parse_create_table(text: str, database: str, context: DdlContext = _UNKNOWN_SERVER) -> MySqlTable:
    """Returns the table of a CREATE TABLE statement that says it all, such as the result of SHOW CREATE TABLE.

    Raises UnparsedDdlError, also for other statements.
    """
    changes = apply({}, text, database, context)
    if len(changes) == 1 and isinstance(change := changes[0], TableDdlChange) and change.table is not None:
        return change.table
    raise UnparsedDdlError(text, "CREATE TABLE with columns expected")


def _split(tokens: list[DdlToken]) -> list[list[DdlToken]]:
    """Returns the tokens of each statement. The body of a routine belongs to its statement."""
    statements: list[list[DdlToken]] = []
    current: list[DdlToken] = []
    for i, token in enumerate(tokens):
        if token.upper != ";":
            current.append(token)
            continue
        if current and current[0].upper in ("CREATE", "ALTER") and _is_routine(current):
            return [*statements, [*current, *tokens[i:]]]
        if current:
            statements.append(current)
        current = []
    return [*statements, current] if current else statements


def _is_routine(tokens: list[DdlToken]) -> bool:
    for token in tokens[1:]:
        if token.upper in _ROUTINES:
            return True
        if token.upper in ("TABLE", "VIEW", "INDEX", "DATABASE", "SCHEMA", "USER", "ROLE", "(", "SEQUENCE"):
            return False
    return False


class _Session:
    """Applies the statements of one text, one after the other."""

    def __init__(self, tables: Mapping[TableId, MySqlTable], database: str | None, context: DdlContext, error_code: int) -> None:
        self._error_code = error_code
        self._new: dict[TableId, MySqlTable | None] = {}
        self._tables: Mapping[TableId, MySqlTable | None] = ChainMap(
            self._new, cast("MutableMapping[TableId, MySqlTable | None]", tables)
        )
        self._database = database
        self._context = context
        self._ddl = ""
        self._begin = 0
        """The number of the token that the statement begins with, behind SET STATEMENT."""
        self.concerned: list[TableId] = []
        """The tables that the statements name."""
        self.changes: list[Change] = []

    def apply(self, cursor: Cursor) -> None:
        before = len(self.concerned)
        self._ddl = cursor.source(0)
        try:
            self._statement(cursor)
            if self._error_code and any(change.kind is not DdlKind.DROP for change in self.changes):
                raise DdlSyntaxError(f"the server logged it with error {self._error_code}, so it may be done in part")
        except (DdlSyntaxError, ValueError) as e:
            raise UnparsedDdlError(self._ddl, str(e), tuple(self.concerned[before:])) from e

    def _statement(self, cursor: Cursor) -> None:
        self._begin = cursor.position
        word = cursor.next().upper
        if word == "CREATE":
            self._create(cursor)
        elif word == "ALTER":
            self._alter(cursor)
        elif word == "DROP":
            self._drop(cursor)
        elif word == "RENAME":
            self._rename(cursor)
        elif word == "TRUNCATE":
            self._truncate(cursor)
        elif word == "USE":
            self._database = self._context.folded(cursor.name())
        elif word == "SET":
            self._set(cursor)
        elif word not in _OTHER_WORDS and word != "(":
            raise DdlSyntaxError(f"statement {word or cursor.source(0, 1)!r} is unknown")

    def _set(self, cursor: Cursor) -> None:
        if not cursor.accept("STATEMENT"):
            return
        while not cursor.accept("FOR"):  # MariaDB: variables for one statement
            if cursor.sees("("):
                cursor.skip_parentheses()
            else:
                cursor.next()
        self._statement(cursor)

    def _id(self, cursor: Cursor) -> TableId:
        return self._resolved(_parse_id(cursor))

    def _resolved(self, names: tuple[str | None, str]) -> TableId:
        database, name = names
        if database is None:
            if self._database is None:
                raise DdlSyntaxError(f"table {name} has no database, and the session has none")
            database = self._database
        id = TableId(self._context.folded(database), self._context.folded(name))
        self.concerned.append(id)
        return id

    def _report(self, change: Change) -> None:
        self.changes.append(change)
        if isinstance(change, TableDdlChange):
            if change.previous_id is not None:
                self._new[change.previous_id] = None
            if change.kind is not DdlKind.TRUNCATE:
                self._new[change.id] = change.table

    def _create(self, cursor: Cursor) -> None:
        replaces = cursor.accept("OR", "REPLACE")
        if cursor.accept("TEMPORARY"):
            return
        if cursor.accept("TABLE"):
            self._create_table(cursor, replaces=replaces)
        elif cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
            if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
            name = cursor.name()
            if not (if_not_exists and self._context.folded(name) in self._context.database_charsets):
                self._database_change(cursor, DdlKind.CREATE, name)
        else:
            cursor.accept_one("ONLINE", "OFFLINE")
            if cursor.accept("UNIQUE"):
                cursor.expect("INDEX")
                self._create_index(cursor, is_unique=True)
            elif cursor.accept("INDEX"):
                self._create_index(cursor, is_unique=False)
            elif cursor.accept_one("FULLTEXT", "VECTOR") is None and cursor.peek().upper not in _NO_TABLES:
                raise cursor.unexpected("what CREATE creates")

    def _create_table(self, cursor: Cursor, *, replaces: bool) -> None:
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        id = self._id(cursor)
        if replaces and self._error_code:
            self._report(TableDdlChange(DdlKind.DROP, id, None, self._ddl))
            return
        if if_not_exists and self._tables.get(id) is not None:
            return
        created = parse_created_table(cursor, self._context, lambda: _parse_id(cursor))
        if created.options.is_sequence:
            return
        table, unknown = None, None
        if created.like is not None:
            source_id = self._resolved(created.like)
            source = self._tables.get(source_id)
            if source is None:
                unknown = f"it has the columns of {source_id}, which is unknown"
            else:
                table = copy_table(source, id)
        elif created.has_query or created.definition is None:
            unknown = "its columns are those of a query"
        else:
            table = build_table(id, created.definition, created.options, self._context)
        self._report(TableDdlChange(DdlKind.CREATE, id, table, self._ddl, unknown=unknown))

    def _create_index(self, cursor: Cursor, *, is_unique: bool) -> None:
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.name()
        if cursor.accept_one("USING", "TYPE") is not None:
            cursor.name()
        cursor.expect("ON")
        id = self._id(cursor)
        definition = KeyDefinition(name, is_unique, parse_key_parts(cursor), if_not_exists)
        table = self._tables.get(id)
        if table is None:
            if is_unique:
                self._report(_unknown(DdlKind.ALTER, id, self._ddl))
            return
        alteration = Alteration(keys=[definition])
        self._report_altered(id, table, alteration)

    def _report_altered(self, id: TableId, table: MySqlTable, alteration: Alteration) -> None:
        self._report(TableDdlChange(DdlKind.ALTER, id, altered_table(table, alteration, self._context), self._ddl))

    def _database_change(self, cursor: Cursor, kind: DdlKind, name: str) -> None:
        charset = collation_charset = None
        while not cursor.at_end:
            cursor.accept("DEFAULT")
            if accept_charset_words(cursor):
                cursor.accept("=")
                charset = parse_charset(cursor) or self._context.server_charset
            elif cursor.accept("COLLATE"):
                collation_charset = parse_collation_charset(cursor)
            else:
                cursor.next()
        charset = charset or collation_charset
        if charset is None and kind is DdlKind.CREATE:
            charset = self._context.server_charset
        self._report_database(kind, self._context.folded(name), charset)

    def _report_database(self, kind: DdlKind, name: str, charset: str | None) -> None:
        self._report(DatabaseChange(kind, name, charset, self._ddl))
        charsets = {**self._context.database_charsets}
        if charset is not None:
            charsets[name] = charset
        self._context = replace(self._context, database_charsets=charsets)
        if kind is DdlKind.DROP:
            for id in [id for id in self._tables if id.database == name]:
                self._new[id] = None

    def _alter(self, cursor: Cursor) -> None:
        cursor.accept_one("ONLINE", "OFFLINE")
        cursor.accept("IGNORE")
        if cursor.accept("TABLE"):
            self._alter_table(cursor)
        elif cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
            follows = cursor.peek().upper
            has_name = follows not in ("DEFAULT", "CHARSET", "COLLATE") and not cursor.sees("CHARACTER", "SET")
            name = cursor.name() if has_name else self._database
            if name is None:
                raise DdlSyntaxError("ALTER DATABASE has no name, and the session has no database")
            if not cursor.accept("UPGRADE", "DATA", "DIRECTORY", "NAME"):
                self._database_change(cursor, DdlKind.ALTER, name)
        elif cursor.peek().upper not in _NO_TABLES:
            raise cursor.unexpected("what ALTER alters")

    def _alter_table(self, cursor: Cursor) -> None:
        cursor.accept("IF", "EXISTS")
        id = self._id(cursor)
        alteration = parse_alteration(cursor, self._context, lambda: _parse_id(cursor))
        table = self._tables.get(id)
        new_id = id if alteration.new_id is None else self._resolved(alteration.new_id)
        kind = DdlKind.ALTER if new_id == id else DdlKind.RENAME
        previous_id = id if kind is DdlKind.RENAME else None
        if table is None:
            self._report(_unknown(kind, new_id, self._ddl, previous_id))
        else:
            altered = renamed_table(altered_table(table, alteration, self._context), new_id)
            self._report(TableDdlChange(kind, new_id, altered, self._ddl, previous_id))
        if alteration.converted_partition is not None:
            created = self._resolved(alteration.converted_partition)
            copy = None if table is None else copy_table(table, created)
            unknown = f"it was a partition of {id}, which is unknown" if table is None else None
            self._report(TableDdlChange(DdlKind.CREATE, created, copy, self._ddl, unknown=unknown))
        if alteration.converted_table is not None:
            self._report(TableDdlChange(DdlKind.DROP, self._resolved(alteration.converted_table), None, self._ddl))

    def _drop(self, cursor: Cursor) -> None:
        if cursor.accept("TEMPORARY"):
            return
        if cursor.accept("TABLE") or cursor.accept("TABLES"):
            self._drop_tables(cursor)
        elif cursor.accept("DATABASE") or cursor.accept("SCHEMA"):
            cursor.accept("IF", "EXISTS")
            self._report_database(DdlKind.DROP, self._context.folded(cursor.name()), None)
        else:
            cursor.accept_one("ONLINE", "OFFLINE")
            if cursor.accept("INDEX"):
                self._drop_index(cursor)
            elif cursor.peek().upper not in _NO_TABLES:
                raise cursor.unexpected("what DROP drops")

    def _drop_tables(self, cursor: Cursor) -> None:
        cursor.accept("IF", "EXISTS")
        prefix = cursor.source(self._begin, cursor.position)
        ids = [self._id(cursor)]
        while cursor.accept(","):
            ids.append(self._id(cursor))
        if cursor.accept("WAIT"):
            cursor.number()
        behavior = cursor.accept_one("NOWAIT", "RESTRICT", "CASCADE")
        if not cursor.at_end:
            raise cursor.unexpected("the end")
        suffix = "" if behavior in (None, "NOWAIT") else f" {behavior}"
        for id in ids:
            self._report(TableDdlChange(DdlKind.DROP, id, None, f"{prefix} {quote_name(*id)}{suffix}"))

    def _drop_index(self, cursor: Cursor) -> None:
        cursor.accept("IF", "EXISTS")
        name = cursor.name()
        cursor.expect("ON")
        id = self._id(cursor)
        table = self._tables.get(id)
        if table is not None:
            self._report_altered(id, table, Alteration(dropped_keys=[name]))

    def _rename(self, cursor: Cursor) -> None:
        if cursor.sees("USER"):
            return
        if not (cursor.accept("TABLE") or cursor.accept("TABLES")):
            raise cursor.unexpected("TABLE")
        cursor.accept("IF", "EXISTS")
        prefix = cursor.source(self._begin, cursor.position)
        while True:
            begin = cursor.position
            old = self._id(cursor)
            if cursor.accept("WAIT"):
                cursor.number()
            cursor.accept("NOWAIT")
            cursor.expect("TO")
            new = self._id(cursor)
            ddl = f"{prefix} {cursor.source(begin, cursor.position)}"
            table = self._tables.get(old)
            if table is None:
                self._report(_unknown(DdlKind.RENAME, new, ddl, old))
            else:
                self._report(TableDdlChange(DdlKind.RENAME, new, renamed_table(table, new), ddl, old))
            if not cursor.accept(","):
                break
        if not cursor.at_end:
            raise cursor.unexpected("the end")

    def _truncate(self, cursor: Cursor) -> None:
        cursor.accept("TABLE")
        id = self._id(cursor)
        self._report(TableDdlChange(DdlKind.TRUNCATE, id, self._tables.get(id), self._ddl))


def _parse_id(cursor: Cursor) -> tuple[str | None, str]:
    cursor.accept(".")
    name = cursor.name()
    if cursor.accept("."):
        return name, cursor.name()
    return None, name


def _unknown(kind: DdlKind, id: TableId, ddl: str, previous_id: TableId | None = None) -> TableDdlChange:
    return TableDdlChange(kind, id, None, ddl, previous_id, f"table {previous_id or id} is unknown")
