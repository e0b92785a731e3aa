"""Writes rows with statements of many rows, up to the size that the server accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from connect.errors import DataError
from connectors.databases.mysql.protocol import execute_all
from connectors.jdbc.catalog import JdbcColumn, JdbcTable
from connectors.jdbc.connection.session import DriverSession
from connectors.jdbc.dialects.mysql.literals import Build, RowBuilder
from connectors.jdbc.dialects.mysql.statements import begin, execute
from connectors.jdbc.errors import RowRejectedError
from connectors.jdbc.options import SinkField, WriteOptions

if TYPE_CHECKING:
    from connectors.jdbc.dialects.dialect import Dialect

_CHARACTERS: Final = 512 * 1024
"""Approximate size of a statement; longer ones are not faster."""
_UPDATES: Final = 500
"""Number of single-row statements in one request."""
_PACKET_OVERHEAD: Final = 16
_ALIAS_SINCE: Final = (8, 0, 20)
"""From this version on, MySQL requires an alias for the new row; VALUES() is deprecated."""
_NEW_ROW: Final = "`new row`"

_limits: WeakKeyDictionary[Any, int] = WeakKeyDictionary()


def max_statement_bytes(session: DriverSession) -> int:
    """Returns the maximum size of a statement, asking the server once per connection."""
    driver = session.driver
    known = _limits.get(driver)
    if known is None:
        with session.guarded("reading max_allowed_packet"), driver.cursor() as cursor:
            cursor.execute("SELECT @@max_allowed_packet")
            known = _limits[driver] = int(cursor.fetchone()[0]) - _PACKET_OVERHEAD
    return known


def needs_row_alias(server_version: str) -> bool:
    """Whether the server is a MySQL that deprecates VALUES() in upserts. MariaDB only has VALUES()."""
    if "mariadb" in server_version.lower():
        return False
    numbers = server_version.split("-")[0].split(".")
    try:
        return tuple(map(int, numbers[:3])) >= _ALIAS_SINCE
    except ValueError:
        return False


def split_rows(rows: list[str], most: int = _CHARACTERS) -> Iterator[list[str]]:
    """Splits the texts of rows into parts of at most so many characters; a longer row is a part of its own."""
    first, size = 0, 0
    for number, row in enumerate(rows):
        size += len(row) + 1
        if size > most and number > first:
            yield rows[first:number]
            first, size = number, len(row) + 1
    if first < len(rows):
        yield rows[first:]


class MultiRowWriter:
    """Writes rows with statements of many rows. See :class:`connectors.jdbc.dialects.dialect.RowWriter`."""

    def __init__(self, doing: str, build: Build, head: str, tail: Callable[[str], str]) -> None:
        """``tail`` returns the end of the statement for a server's version."""
        self._doing = doing
        self._build = build
        self._head = head
        self._tail = tail

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        most = max_statement_bytes(session)
        texts = self._build(rows)
        tail = self._tail(session.driver.get_server_info())
        with session.guarded(self._doing):
            driver = begin(session)
            for part in split_rows(texts):
                self._run(driver, part, tail, most)

    def _run(self, driver: Any, rows: list[str], tail: str, most: int) -> None:
        statement = f"{self._head}{','.join(rows)}{tail}".encode()
        if len(statement) <= most:
            execute(driver, statement)
        elif len(rows) > 1:
            middle = len(rows) // 2
            self._run(driver, rows[:middle], tail, most)
            self._run(driver, rows[middle:], tail, most)
        else:
            raise statement_too_long_error(self._doing, len(statement), most)


class UpdateWriter:
    """Writes each row with a statement of its own, many statements per request."""

    def __init__(self, doing: str, build: Build) -> None:
        self._doing = doing
        self._build = build

    def write(self, session: DriverSession, rows: Sequence[Sequence[Any]]) -> None:
        if not rows:
            return
        most = max_statement_bytes(session)
        texts = self._build(rows)
        with session.guarded(self._doing):
            driver = begin(session)
            for part in split_rows(texts):
                for at in range(0, len(part), _UPDATES):
                    self._run(driver, part[at : at + _UPDATES], most)

    def _run(self, driver: Any, statements: list[str], most: int) -> None:
        text = ";".join(statements).encode()
        if len(text) > most:
            if len(statements) == 1:
                raise statement_too_long_error(self._doing, len(text), most)
            middle = len(statements) // 2
            self._run(driver, statements[:middle], most)
            self._run(driver, statements[middle:], most)
            return
        execute_all(driver, text)


def statement_too_long_error(doing: str, size: int, most: int) -> RowRejectedError:
    return RowRejectedError(
        f"{doing} failed: the statement for one row has {size} bytes, but the server accepts {most}; raise its max_allowed_packet"
    )


# --- the statements


def target_columns(table: JdbcTable, fields: Sequence[SinkField]) -> list[JdbcColumn]:
    """Returns the columns of fields. Raises DataError for one that does not exist or cannot be written."""
    found = []
    for field in fields:
        column = table.column(field.name)
        if column is None:
            raise DataError(f"Field {field.name} has no column in {table.name}; it has {', '.join(table.by_name)}")
        if column.generated:
            raise DataError(f"Column {column.name} of {table.name} is generated: omit the field")
        found.append(column)
    return found


def _row_template(count: int) -> list[str]:
    return ["(", *[","] * (count - 1), ")"]


def insert_writer(dialect: Dialect, table: JdbcTable, fields: Sequence[SinkField], options: WriteOptions) -> MultiRowWriter:
    columns = target_columns(table, fields)
    build = RowBuilder(fields, columns, options, _row_template(len(fields)))
    return MultiRowWriter(f"writing {table.name}", build, _insert_head(dialect, table, columns), lambda version: "")


def _insert_head(dialect: Dialect, table: JdbcTable, columns: Sequence[JdbcColumn]) -> str:
    names = ",".join(dialect.quote(column.name) for column in columns)
    return f"INSERT INTO {dialect.table_ref(table.name)} ({names}) VALUES "


def upsert_writer(dialect: Dialect, table: JdbcTable, fields: Sequence[SinkField], options: WriteOptions) -> MultiRowWriter:
    columns = target_columns(table, fields)
    if not any(field.is_key for field in fields):
        raise DataError(f"An upsert into {table.name} needs key fields (pk.mode, pk.fields)")
    build = RowBuilder(fields, columns, options, _row_template(len(fields)))
    others = [dialect.quote(column.name) for field, column in zip(fields, columns, strict=True) if not field.is_key]
    key = next(dialect.quote(column.name) for field, column in zip(fields, columns, strict=True) if field.is_key)

    def tail(version: str) -> str:
        return upsert_clause(dialect.table_ref(table.name), key, others, alias=needs_row_alias(version))

    return MultiRowWriter(f"writing {table.name}", build, _insert_head(dialect, table, columns), tail)


def upsert_clause(table: str, key: str, others: Sequence[str], *, alias: bool) -> str:
    """Returns the clause that updates an existing row. Without other columns, it sets a key to itself, which changes nothing."""
    start = f" AS {_NEW_ROW} ON DUPLICATE KEY UPDATE " if alias else " ON DUPLICATE KEY UPDATE "
    if not others:
        return f"{start}{key}={table}.{key}"
    if alias:
        return start + ",".join(f"{name}={_NEW_ROW}.{name}" for name in others)
    return start + ",".join(f"{name}=VALUES({name})" for name in others)


def update_writer(dialect: Dialect, table: JdbcTable, fields: Sequence[SinkField], options: WriteOptions) -> UpdateWriter:
    ordered = [field for field in fields if not field.is_key] + [field for field in fields if field.is_key]
    columns = target_columns(table, ordered)
    others = sum(not field.is_key for field in fields)
    if not others:
        raise DataError(f"insert.mode=update of {table.name} has no columns to set because all fields are part of the key")
    if others == len(fields):
        raise DataError(f"An update of {table.name} needs key fields (pk.mode, pk.fields)")
    names = [dialect.quote(column.name) for column in columns]
    form = [f"UPDATE {dialect.table_ref(table.name)} SET {names[0]}="]
    form += [f",{name}=" for name in names[1:others]]
    form += [f" WHERE {names[others]}=", *(f" AND {name}=" for name in names[others + 1 :]), ""]
    build = RowBuilder(ordered, columns, options, form)
    indexes = [fields.index(field) for field in ordered]
    if indexes == list(range(len(fields))):
        return UpdateWriter(f"writing {table.name}", build)
    return UpdateWriter(f"writing {table.name}", lambda rows: build([[row[i] for i in indexes] for row in rows]))


def delete_writer(dialect: Dialect, table: JdbcTable, keys: Sequence[SinkField], options: WriteOptions) -> MultiRowWriter:
    columns = target_columns(table, keys)
    names = [dialect.quote(column.name) for column in columns]
    single = len(names) == 1
    build = RowBuilder(keys, columns, options, ["", ""] if single else _row_template(len(keys)))
    where = names[0] if single else f"({','.join(names)})"
    head = f"DELETE FROM {dialect.table_ref(table.name)} WHERE {where} IN ("
    return MultiRowWriter(f"deleting from {table.name}", build, head, lambda version: ")")
