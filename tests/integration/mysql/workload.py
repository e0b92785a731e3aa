"""A random workload of MariaDB: DDL and DML in several sessions and databases, which a generator decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pymysql

from tests.support.log_replay import Tables

_LOCKED, _DEADLOCK, _DUPLICATE, _NO_TABLE, _NO_COLUMN, _CHANGED = 1205, 1213, 1062, 1146, 1054, 1412
_NO_SAVEPOINT, _UNKNOWN_SAVEPOINT, _ROW_CHANGED = 1178, 1305, 1020
_RECOVERABLE = frozenset(
    (_LOCKED, _DEADLOCK, _DUPLICATE, _NO_TABLE, _NO_COLUMN, _CHANGED, _NO_SAVEPOINT, _UNKNOWN_SAVEPOINT, _ROW_CHANGED)
)
_ENGINES = ("InnoDB", "InnoDB", "InnoDB", "Aria", "MyISAM")


@dataclass(frozen=True)
class TableShape:
    """A table as it is now; columns with their types."""

    name: str
    columns: dict[str, str]
    engine: str

    @property
    def names(self) -> str:
        return ", ".join(self.columns)


class Session:
    """A connection and its open transaction."""

    def __init__(self, connection: pymysql.Connection[Any]) -> None:
        self.connection = connection
        self.is_open = False
        self.savepoints: list[str] = []
        self.run("SET SESSION innodb_lock_wait_timeout = 0, lock_wait_timeout = 0, sql_mode = ''")

    def run(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        with self.connection.cursor() as cursor:
            cursor.execute(query, parameters)
            return list(cursor.fetchall())

    def begin(self) -> None:
        if not self.is_open:
            self.run("BEGIN")
            self.is_open = True

    def end(self, command: str) -> None:
        self.run(command)
        self.is_open = False
        self.savepoints.clear()


class Workload:
    """Runs transactions, describes DDL by its GTID, and keeps the tables as they are between transactions, by the last GTID."""

    def __init__(
        self,
        connect: Callable[[], pymysql.Connection[Any]],
        databases: tuple[str, ...],
        chance: random.Random,
        folder: Path,
        *,
        rows: int,
    ) -> None:
        self.random = chance
        self._databases = databases
        self._folder = folder
        self._rows = rows
        self._sessions = [Session(connect()) for _ in range(3)]
        self._names = 0
        self.shapes: dict[str, TableShape] = {}
        self.described: dict[str, list[list[Any]]] = {}
        self.states: dict[int | str, Tables] = {}
        self._operations: dict[Callable[[Session, TableShape], None], int] = {
            self._insert: 8, self._update: 8, self._change_key: 5, self._delete: 5, self._insert_select: 2, self._load: 2,
            self._replace: 2, self._savepoint: 3, self._rollback_to: 3, self._run_xa: 2, self._alter: 6, self._switch_file: 1,
        }  # fmt: skip

    def close(self) -> None:
        for session in self._sessions:
            session.connection.close()

    def create_tables(self) -> None:
        for database in self._databases:
            for engine, is_keyed in (("InnoDB", True), ("InnoDB", False), ("Aria", True)):
                shape = self._create_table(self._sessions[0], database, engine, is_keyed=is_keyed)
                self._insert(self._sessions[0], shape)
        self.described.clear()

    def step(self) -> None:
        """Runs one operation in one of the sessions, or ends its transaction."""
        session = self.random.choice(self._sessions)
        if session.is_open and self.random.random() < 0.3:
            self._end(session)
            return
        operation = self.random.choices(list(self._operations), list(self._operations.values()))[0]
        shape = self.random.choice(list(self.shapes.values()))
        if self.random.random() < 0.7 and operation not in (self._run_xa, self._alter):
            session.begin()
        try:
            operation(session, shape)
        except pymysql.err.MySQLError as e:
            if e.args[0] not in _RECOVERABLE:
                raise
            if e.args[0] in (_DEADLOCK, _ROW_CHANGED):  # the server has ended the transaction
                session.end("ROLLBACK")

    def _end(self, session: Session) -> None:
        session.end("ROLLBACK" if self.random.random() < 0.25 else "COMMIT")

    def end_all(self) -> None:
        """Ends all transactions, and keeps the tables."""
        for session in self._sessions:
            if session.is_open:
                self._end(session)
        ((domain, last),) = self._sessions[0].run("SELECT @@gtid_domain_id, @@gtid_binlog_pos")
        # The log may have transactions of other domains, of other tests.
        (gtid,) = (one for one in last.split(",") if one.startswith(f"{domain}-"))
        self.states[gtid] = self.tables()

    def run_big_transaction(self) -> None:
        """Writes many rows in one transaction, a part of which is rolled back."""
        session, half = self._sessions[0], self._rows // 2
        if session.is_open:
            self._end(session)
        shape = self._create_table(session, self._databases[0], "InnoDB", is_keyed=True)
        session.begin()
        session.run(f"INSERT INTO {shape.name}(id, n) SELECT seq, seq FROM seq_1_to_{half}")
        session.run("SAVEPOINT undone")
        session.run(f"DELETE FROM {shape.name} WHERE id <= 100")
        session.run("ROLLBACK TO SAVEPOINT undone")
        session.run(f"UPDATE {shape.name} SET n = n + 1 WHERE id % 2 = 0")
        session.run(f"DELETE FROM {shape.name} WHERE id % 4 = 1")
        session.end("COMMIT")

    def tables(self) -> Tables:
        """All rows. Nothing is open."""
        found: Tables = {}
        for shape in self.shapes.values():
            columns = ", ".join(f"CAST({name} AS CHAR)" for name in shape.columns)
            rows = self._sessions[0].run(f"SELECT {columns} FROM {shape.name}")
            found[shape.name] = [dict(zip(shape.columns, row, strict=True)) for row in rows]
        return found

    def columns(self) -> dict[str, list[str]]:
        return {name: list(shape.columns) for name, shape in self.shapes.items()}

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _rows_of(self, shape: TableShape) -> list[list[Any]]:
        return [[self._value(*column) for column in shape.columns.items()] for _ in range(self.random.randint(1, 5))]

    def _write(self, session: Session, verb: str, shape: TableShape) -> None:
        rows = self._rows_of(shape)
        marks = ", ".join(f"({', '.join(['%s'] * len(shape.columns))})" for _ in rows)
        session.run(f"{verb} INTO {shape.name}({shape.names}) VALUES {marks}", [value for row in rows for value in row])

    def _insert(self, session: Session, shape: TableShape) -> None:
        self._write(session, "INSERT IGNORE", shape)

    def _replace(self, session: Session, shape: TableShape) -> None:
        self._write(session, "REPLACE", shape)

    def _insert_select(self, session: Session, shape: TableShape) -> None:
        others = ", ".join(name for name in shape.columns if name != "id")
        session.run(
            f"INSERT IGNORE INTO {shape.name}(id, {others}) SELECT id + 300, {others} FROM {shape.name} WHERE id % 5 = 1 LIMIT 20"
        )

    def _load(self, session: Session, shape: TableShape) -> None:
        file = self._folder / "rows.txt"
        lines = ["\t".join("\\N" if value is None else _escaped(str(value)) for value in row) for row in self._rows_of(shape)]
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        session.run(f"LOAD DATA LOCAL INFILE '{file}' INTO TABLE {shape.name} CHARACTER SET utf8mb4 ({shape.names})")

    def _update(self, session: Session, shape: TableShape) -> None:
        column = self.random.choice([name for name in shape.columns if name != "id"])
        value = self._value(column, shape.columns[column])
        session.run(f"UPDATE {shape.name} SET {column} = %s WHERE id %% 7 = %s", [value, self.random.randrange(7)])

    def _change_key(self, session: Session, shape: TableShape) -> None:
        step = self.random.choice((1, 1000))
        session.run(f"UPDATE {shape.name} SET id = id + {step} WHERE id % 11 = {self.random.randrange(11)} ORDER BY id DESC")

    def _delete(self, session: Session, shape: TableShape) -> None:
        session.run(f"DELETE FROM {shape.name} WHERE id % 9 = {self.random.randrange(9)}")

    def _value(self, column: str, type_: str) -> Any:
        if column == "id":
            return self.random.randrange(300)
        if self.random.random() < 0.1:
            return None
        if type_.startswith(("int", "bigint")):
            return self.random.randrange(0 if "unsigned" in type_ else -100, 100)
        if type_.startswith("decimal"):
            return f"{self.random.randrange(-10000, 10000) / 100:.2f}"
        text = self.random.choice(("a", "\t\n\\N'\"", "\u20ac\U0001f600", ""))
        return text + str(self.random.random()) * self.random.choice((1, 1, 20))

    # --- transactions ---------------------------------------------------------------------------------------------------------

    def _savepoint(self, session: Session, shape: TableShape) -> None:
        session.begin()
        name = self._new_name("s")
        session.run(f"SAVEPOINT {name}")  # not after changes of an engine without transactions
        session.savepoints.append(name)

    def _rollback_to(self, session: Session, shape: TableShape) -> None:
        if session.savepoints:
            at = self.random.randrange(len(session.savepoints))
            session.run(f"ROLLBACK TO SAVEPOINT {session.savepoints[at]}")
            del session.savepoints[at + 1 :]

    def _run_xa(self, session: Session, shape: TableShape) -> None:
        """Commits in one phase or two, or rolls back before the first phase has ended. Others run between the phases."""
        if session.is_open:
            self._end(session)
        name = self._new_name("xa")
        session.run(f"XA START '{name}'")
        try:
            for operation in (self._insert, self._update, self._delete):
                operation(session, shape)
        except pymysql.err.MySQLError as e:
            if e.args[0] not in _RECOVERABLE:
                raise
            is_failed = True
        else:
            is_failed = False
        try:
            session.run(f"XA END '{name}'")
        except pymysql.err.MySQLError:  # a deadlock has ended it
            is_failed = True
        how = "rollback" if is_failed else self.random.choice(("two phases", "two phases", "one phase", "rollback"))
        if how == "two phases":
            session.run(f"XA PREPARE '{name}'")
            other = self.random.choice([one for one in self._sessions if one is not session])
            try:
                self._insert(other, self.random.choice(list(self.shapes.values())))
            except pymysql.err.MySQLError as e:
                if e.args[0] not in _RECOVERABLE:
                    raise
                if e.args[0] == _DEADLOCK:
                    other.end("ROLLBACK")
            session.run(f"XA COMMIT '{name}'")
        else:
            session.run(f"XA COMMIT '{name}' ONE PHASE" if how == "one phase" else f"XA ROLLBACK '{name}'")

    def _switch_file(self, session: Session, shape: TableShape) -> None:
        session.run("FLUSH BINARY LOGS")

    # --- DDL ------------------------------------------------------------------------------------------------------------------

    def _alter(self, session: Session, shape: TableShape) -> None:
        """DDL commits the transaction of its session."""
        if session.is_open:
            self._end(session)
        self.random.choice(
            (self._add_column, self._add_column, self._drop_column, self._rename_column, self._change_type, self._rename_table,
             self._drop_table, self._truncate)
        )(session, shape)  # fmt: skip

    def _add_column(self, session: Session, shape: TableShape) -> None:
        column = self._new_name("c")
        type_, default = self.random.choice(
            (("int", None), ("int", "7"), ("text", None), ("decimal(12,2)", "1.50"), ("bigint unsigned", "5"))
        )
        place = self.random.choice(("", " FIRST", " AFTER id"))
        self._define(
            session,
            f"ALTER TABLE {shape.name} ADD COLUMN {column} {type_}{f' DEFAULT {default}' if default else ''}{place}",
            shape,
            replace(shape, columns=_with_column(shape.columns, column, type_, place)),
            ["default", shape.name, column, default],
        )

    def _drop_column(self, session: Session, shape: TableShape) -> None:
        if (column := self._own_column(shape)) is not None:
            columns = {name: type_ for name, type_ in shape.columns.items() if name != column}
            statement = f"ALTER TABLE {shape.name} DROP {column}"
            self._define(session, statement, shape, replace(shape, columns=columns), ["drop_column", shape.name, column])

    def _rename_column(self, session: Session, shape: TableShape) -> None:
        if (column := self._own_column(shape)) is not None:
            new = self._new_name("c")
            columns = {new if name == column else name: type_ for name, type_ in shape.columns.items()}
            statement = f"ALTER TABLE {shape.name} RENAME COLUMN {column} TO {new}"
            self._define(session, statement, shape, replace(shape, columns=columns), ["rename_column", shape.name, column, new])

    def _change_type(self, session: Session, shape: TableShape) -> None:
        integers = [name for name, type_ in shape.columns.items() if type_ == "int" and name != "id"]
        if integers:
            column, type_ = self.random.choice(integers), self.random.choice(("bigint", "text"))
            columns = {**shape.columns, column: type_}
            self._define(session, f"ALTER TABLE {shape.name} MODIFY {column} {type_}", shape, replace(shape, columns=columns))

    def _rename_table(self, session: Session, shape: TableShape) -> None:
        new = f"{shape.name.partition('.')[0]}.{self._new_name('t')}"
        statement = f"RENAME TABLE {shape.name} TO {new}"
        self._define(session, statement, shape, replace(shape, name=new), ["rename_table", shape.name, new])

    def _drop_table(self, session: Session, shape: TableShape) -> None:
        self._define(session, f"DROP TABLE {shape.name}", shape, None, ["drop_table", shape.name])
        engine = self.random.choice(_ENGINES)
        self._create_table(session, self.random.choice(self._databases), engine, is_keyed=self.random.random() < 0.7)

    def _truncate(self, session: Session, shape: TableShape) -> None:
        self._define(session, f"TRUNCATE TABLE {shape.name}", shape, shape, ["truncate", shape.name])

    def _create_table(self, session: Session, database: str, engine: str, *, is_keyed: bool) -> TableShape:
        shape = TableShape(f"{database}.{self._new_name('t')}", {"id": "int", "n": "int", "note": "text"}, engine)
        key = " PRIMARY KEY" if is_keyed else ""
        self._define(session, f"CREATE TABLE {shape.name}(id int{key}, n int, note text) ENGINE={engine}", None, shape)
        return shape

    def _define(
        self, session: Session, statement: str, old: TableShape | None, new: TableShape | None, *described: list[Any]
    ) -> None:
        """Runs DDL, and describes it by its GTID."""
        session.run(statement)
        ((gtid,),) = session.run("SELECT @@last_gtid")
        if old is not None:
            del self.shapes[old.name]
        changes = list(described)
        if new is not None:
            self.shapes[new.name] = new
            changes.append(["columns", new.name, list(new.columns)])
        self.described[gtid] = changes

    @staticmethod
    def _own_column(shape: TableShape) -> str | None:
        return next((name for name in shape.columns if name.startswith("c")), None)

    def _new_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}{self._names}"


def _with_column(columns: dict[str, str], column: str, type_: str, place: str) -> dict[str, str]:
    items = list(columns.items())
    at = 0 if place == " FIRST" else len(items) if not place else 1 + list(columns).index("id")
    return dict([*items[:at], (column, type_), *items[at:]])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\t", "\\t").replace("\n", "\\n")
