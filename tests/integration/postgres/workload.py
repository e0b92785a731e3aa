"""A random workload: DDL and DML in several sessions with savepoints and rollbacks, which a generator decides."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql

from tests.support.log_replay import Tables

_RECOVERABLE = (
    psycopg.errors.LockNotAvailable,
    psycopg.errors.UniqueViolation,
    psycopg.errors.NotNullViolation,
    psycopg.errors.CheckViolation,
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.DuplicateTable,
    psycopg.errors.ObjectNotInPrerequisiteState,
    psycopg.errors.ObjectInUse,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.InvalidTableDefinition,
    psycopg.errors.InvalidObjectDefinition,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.WrongObjectType,
    psycopg.errors.DependentObjectsStillExist,
)
_PARTITION = 10
"""Values of ``region`` in each partition."""


class Session:
    """A connection and its open transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.connection.execute("SET lock_timeout = '5ms'")
        self.is_open = False
        self.locks_tables = False
        """Whether the transaction ran DDL: others wait for it."""
        self.savepoints: list[str] = []

    def run(self, query: str, parameters: Any = None) -> list[tuple[Any, ...]]:
        cursor = self.connection.execute(sql.SQL(query), parameters)
        return cursor.fetchall() if cursor.description else []

    def end(self, command: str) -> None:
        self.run(command)
        self.is_open = self.locks_tables = False
        self.savepoints.clear()


class Table:
    """What the catalog says about a table, as a session sees it."""

    def __init__(self, session: Session, name: str, kind: str, is_partition: bool) -> None:
        self.name, self.kind, self.is_partition = name, kind, is_partition
        found = session.run(
            "SELECT attname, atttypid::regtype::text FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 "
            "AND NOT attisdropped ORDER BY attnum",
            [name],
        )
        self.columns: dict[str, str] = dict(found)
        key = session.run("SELECT conname FROM pg_constraint WHERE conrelid = %s::regclass AND contype = 'p'", [name])
        self.key_name: str | None = key[0][0] if key else None


class Workload:
    """Runs transactions and keeps the tables as they are after each commit, by transaction ID."""

    def __init__(
        self, connect: Callable[[], psycopg.Connection[Any]], chance: random.Random, *, via_root: bool, rows: int
    ) -> None:
        self.random = chance
        self._via_root = via_root
        self._rows = rows
        self._sessions = [Session(connect()) for _ in range(3)]
        self._observer = Session(connect())
        self._names = 0
        self.states: dict[int, Tables] = {}
        self.sampled = 1.0
        """The share of commits after which the tables are kept."""
        self._operations: dict[Callable[[Session], None], int] = {
            self._insert: 8, self._update: 8, self._change_key: 5, self._delete: 5, self._copy: 2, self._truncate: 1,
            self._savepoint: 3, self._rollback_to: 3, self._message: 1, self._alter: 14, self._alter_partitions: 3,
        }  # fmt: skip

    def close(self) -> None:
        for session in (*self._sessions, self._observer):
            session.connection.close()

    def create_tables(self) -> None:
        session = self._sessions[0]
        session.run("BEGIN")
        self._create_table(session, keyed=True)
        self._create_table(session, keyed=True)
        self._create_table(session, keyed=False)
        session.run("CREATE TABLE p(id int, region int, note text, PRIMARY KEY (id, region)) PARTITION BY RANGE (region)")
        session.run("ALTER TABLE p ALTER note SET STORAGE EXTERNAL")
        for low in (0, _PARTITION):
            session.run(f"CREATE TABLE p_{low} PARTITION OF p FOR VALUES FROM ({low}) TO ({low + _PARTITION})")
        for table in self._tables(session):
            if not table.is_partition:
                self._insert_into(session, table)
        session.end("COMMIT")

    def step(self) -> None:
        """Runs one operation in one of the sessions, or ends its transaction."""
        session = self.random.choice(self._sessions)
        if not session.is_open:
            session.run("BEGIN")
            session.is_open = True
        elif self.random.random() < 0.3:
            self.end(session)
            return
        operation = self.random.choices(list(self._operations), list(self._operations.values()))[0]
        session.run("SAVEPOINT attempt")
        session.locks_tables |= operation in (self._alter, self._alter_partitions, self._truncate)
        try:
            operation(session)
        except _RECOVERABLE:
            session.run("ROLLBACK TO SAVEPOINT attempt")

    def end(self, session: Session) -> None:
        if self.random.random() < 0.2:
            session.end("ROLLBACK")
            return
        ((xid,),) = session.run("SELECT pg_current_xact_id_if_assigned()::text::bigint")
        session.end("COMMIT")
        if xid is not None and self.random.random() < self.sampled:
            with contextlib.suppress(psycopg.errors.LockNotAvailable):  # DDL in another session
                self.states[xid % (1 << 32)] = self.tables()

    @property
    def locks_tables(self) -> bool:
        """Whether a reader of the catalog may wait for an open transaction."""
        return any(session.locks_tables for session in self._sessions)

    def end_locks(self) -> None:
        """Ends the transactions that a reader of the catalog may wait for."""
        for session in self._sessions:
            if session.locks_tables:
                self.end(session)

    def end_all(self) -> None:
        for session in self._sessions:
            if session.is_open:
                self.end(session)

    def run_big_transaction(self) -> None:
        """Writes many rows in one transaction, which the server spills to disk."""
        self.end_all()
        session, half = self._sessions[0], self._rows // 2
        session.run("BEGIN")
        name = self._new_name("big")
        session.run(f"CREATE TABLE {name}(id int PRIMARY KEY, n int)")
        session.run(f"INSERT INTO {name} SELECT i, i FROM generate_series(1, {half}) i")
        session.run("SAVEPOINT undone")
        session.run(f"DELETE FROM {name} WHERE id <= 100")
        session.run("ROLLBACK TO SAVEPOINT undone")
        session.run(f"UPDATE {name} SET n = n + 1 WHERE id % 2 = 0")
        session.run(f"DELETE FROM {name} WHERE id % 4 = 1")
        ((xid,),) = session.run("SELECT pg_current_xact_id()::text::bigint")
        session.end("COMMIT")
        self.states[xid % (1 << 32)] = self.tables()

    def tables(self) -> Tables:
        """All committed rows: those of partitions under their own name, or under the name of the partitioned table."""
        found: Tables = {}
        for table in self._tables(self._observer):
            if table.kind == "p" if not self._via_root else table.is_partition:
                continue
            columns = ", ".join(f'"{column}"::text' for column in table.columns)
            rows = self._observer.run(f"SELECT {columns} FROM {table.name}")
            found[table.name] = [dict(zip(table.columns, row, strict=True)) for row in rows]
        return found

    # --- rows -----------------------------------------------------------------------------------------------------------------

    def _insert(self, session: Session) -> None:
        self._insert_into(session, self._pick(session))

    def _insert_into(self, session: Session, table: Table) -> None:
        for _ in range(self.random.randint(1, 4)):
            values = {column: self._value(column, type_) for column, type_ in table.columns.items()}
            names, marks = ", ".join(values), ", ".join(["%s"] * len(values))
            session.run(f"INSERT INTO {table.name}({names}) VALUES ({marks}) ON CONFLICT DO NOTHING", list(values.values()))

    def _copy(self, session: Session) -> None:
        table = self._pick(session)
        names = ", ".join(table.columns)
        with session.connection.cursor() as cursor, cursor.copy(f"COPY {table.name}({names}) FROM STDIN") as copy:
            for _ in range(self.random.randint(1, 8)):
                copy.write_row([self._value(column, type_) for column, type_ in table.columns.items()])

    def _update(self, session: Session) -> None:
        table = self._pick(session)
        column = self.random.choice([name for name in table.columns if name not in ("id", "region")] or ["id"])
        value = self._value(column, table.columns[column])
        session.run(f"UPDATE {table.name} SET {column} = %s WHERE id %% 7 = %s", [value, self.random.randrange(7)])

    def _change_key(self, session: Session) -> None:
        table = self._pick(session)
        if "region" in table.columns and self.random.random() < 0.5:  # rows may move to another partition
            change = f"region = (region + {self.random.randint(1, 15)}) %% 20"
        else:
            change = f"id = id + {self.random.choice((1, 1000))}"
        session.run(f"UPDATE {table.name} SET {change} WHERE id %% 11 = %s", [self.random.randrange(11)])

    def _delete(self, session: Session) -> None:
        session.run(f"DELETE FROM {self._pick(session).name} WHERE id %% 9 = %s", [self.random.randrange(9)])

    def _truncate(self, session: Session) -> None:
        table = self._pick(session)
        if self._via_root and table.is_partition:
            return  # not in the log of a publication via the root
        session.run(f"TRUNCATE {table.name}")

    def _value(self, column: str, type_: str) -> Any:
        if column == "id":
            return self.random.randrange(300)
        if column == "region":
            return self.random.randrange(2 * _PARTITION)
        if self.random.random() < 0.1:
            return None
        if type_ in ("integer", "bigint"):
            return self.random.randrange(-100, 100)
        if type_.startswith("numeric"):
            return f"{self.random.randrange(-10000, 10000) / 100:.2f}"
        if type_ == "jsonb":
            return json.dumps({"a": self.random.randrange(10), "b": ['\u00e4"\\', None]})
        text = self.random.choice(("a", "\t\n\\N'\"", "\u20ac\U0001f600", ""))
        return text + str(self.random.random()) * self.random.choice((1, 1, 200))

    # --- savepoints and messages ----------------------------------------------------------------------------------------------

    def _savepoint(self, session: Session) -> None:
        session.savepoints.append(self._new_name("s"))
        session.run(f"SAVEPOINT {session.savepoints[-1]}")

    def _rollback_to(self, session: Session) -> None:
        if session.savepoints:
            at = self.random.randrange(len(session.savepoints))
            session.run(f"ROLLBACK TO SAVEPOINT {session.savepoints[at]}")
            del session.savepoints[at + 1 :]
            session.run("SAVEPOINT attempt")

    def _message(self, session: Session) -> None:
        session.run("SELECT pg_logical_emit_message(%s, 'noise', 'text')", [self.random.random() < 0.5])

    # --- DDL ------------------------------------------------------------------------------------------------------------------

    def _alter(self, session: Session) -> None:
        table = self._pick(session)
        if table.is_partition:
            if not self._via_root:
                session.run(f"ALTER TABLE {table.name} REPLICA IDENTITY {self.random.choice(('FULL', 'DEFAULT'))}")
            return
        self.random.choice(
            (
                self._add_column, self._drop_column, self._rename_column, self._change_type, self._change_identity,
                self._change_identity, self._change_primary_key, self._rename_table, self._drop_table,
            )
        )(session, table)  # fmt: skip

    def _add_column(self, session: Session, table: Table) -> None:
        column = self._new_name("c")
        type_, default = self.random.choice(
            (("int", None), ("int", "7"), ("text", None), ("numeric(12,2)", "1.50"), ("jsonb", None))
        )
        session.run(f"ALTER TABLE {table.name} ADD {column} {type_}" + (f" DEFAULT {default}" if default else ""))
        self._describe(session, "default", table, column, default)

    def _drop_column(self, session: Session, table: Table) -> None:
        column = self._own_column(table)
        session.run(f"ALTER TABLE {table.name} DROP {column}")
        self._describe(session, "drop_column", table, column)

    def _rename_column(self, session: Session, table: Table) -> None:
        column, name = self._own_column(table), self._new_name("c")
        session.run(f"ALTER TABLE {table.name} RENAME {column} TO {name}")
        self._describe(session, "rename_column", table, column, name)

    def _change_type(self, session: Session, table: Table) -> None:
        integers = [name for name, type_ in table.columns.items() if type_ == "integer" and name not in ("id", "region")]
        if integers:
            type_ = self.random.choice(("bigint", "text"))
            column = self.random.choice(integers)
            session.run(f"ALTER TABLE {table.name} ALTER {column} DROP DEFAULT, ALTER {column} TYPE {type_}")

    def _change_identity(self, session: Session, table: Table) -> None:
        if table.kind == "p":
            return
        identities = ["FULL"] if table.key_name is None else ["FULL", "DEFAULT", f"USING INDEX {table.key_name}"]
        session.run(f"ALTER TABLE {table.name} REPLICA IDENTITY {self.random.choice(identities)}")

    def _change_primary_key(self, session: Session, table: Table) -> None:
        if table.kind == "p" or "n" not in table.columns:
            return
        change = f"DROP CONSTRAINT {table.key_name}, " if table.key_name else ""
        columns = self.random.choice(("id", "id, n", "n, id"))
        session.run(f"ALTER TABLE {table.name} {change}ADD PRIMARY KEY ({columns}), REPLICA IDENTITY DEFAULT")

    def _rename_table(self, session: Session, table: Table) -> None:
        if table.kind != "p":
            name = self._new_name("t")
            session.run(f"ALTER TABLE {table.name} RENAME TO {name}")
            self._describe(session, "rename_table", table, name)

    def _drop_table(self, session: Session, table: Table) -> None:
        if table.kind != "p":
            session.run(f"DROP TABLE {table.name}")
            self._describe(session, "drop_table", table)
        self._create_table(session, keyed=self.random.random() < 0.7)

    def _create_table(self, session: Session, *, keyed: bool) -> None:
        name = self._new_name("t")
        session.run(f"CREATE TABLE {name}(id int {'PRIMARY KEY' if keyed else ''}, n int, note text)")
        session.run(f"ALTER TABLE {name} ALTER note SET STORAGE EXTERNAL")
        if not keyed:
            session.run(f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def _alter_partitions(self, session: Session) -> None:
        """Detaches a partition and attaches it again, or drops one and creates another."""
        partitions = [table for table in self._tables(session) if table.is_partition]
        if not partitions:
            return
        table = self.random.choice(partitions)
        ((bounds,),) = session.run("SELECT pg_get_expr(relpartbound, oid) FROM pg_class WHERE oid = %s::regclass", [table.name])
        low = int(bounds.split("FROM (")[1].split(")")[0].strip("'"))
        session.run(f"ALTER TABLE p DETACH PARTITION {table.name}")
        self._describe(session, "detach", table, low, low + _PARTITION)
        if self.random.random() < 0.5:
            session.run(f"ALTER TABLE p ATTACH PARTITION {table.name} FOR VALUES FROM ({low}) TO ({low + _PARTITION})")
            self._describe(session, "attach", table)
            return
        session.run(f"DROP TABLE {table.name}")
        self._describe(session, "drop_table", table)
        session.run(f"CREATE TABLE {self._new_name('p')} PARTITION OF p FOR VALUES FROM ({low}) TO ({low + _PARTITION})")

    @staticmethod
    def _own_column(table: Table) -> str:
        for column in table.columns:
            if column.startswith("c"):
                return column
        raise psycopg.errors.UndefinedColumn

    def _describe(self, session: Session, change: str, table: Table, *arguments: Any) -> None:
        """Writes what DDL does to the rows into the log, where it is rolled back with it: those of partitions, too."""
        names = [table.name]
        if table.kind == "p":
            names += [name for (name,) in session.run("SELECT relid::text FROM pg_partition_tree('p') WHERE isleaf")]
        for name in names:
            session.run("SELECT pg_logical_emit_message(true, 'workload', %s)", [json.dumps([change, name, *arguments])])

    def _tables(self, session: Session) -> list[Table]:
        found = session.run(
            "SELECT relname::text, relkind::text, relispartition FROM pg_class WHERE relnamespace = 'public'::regnamespace "
            "AND relkind IN ('r', 'p') ORDER BY oid"
        )
        return [Table(session, name, kind, is_partition) for name, kind, is_partition in found]

    def _pick(self, session: Session) -> Table:
        return self.random.choice([table for table in self._tables(session) if not table.name.startswith("big")])

    def _new_name(self, stem: str) -> str:
        self._names += 1
        return f"{stem}_{self._names}n"
