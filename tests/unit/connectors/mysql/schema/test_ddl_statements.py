"""Statements, and what they do to tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from connectors.mysql.schema.ddl import (
    DatabaseChange,
    DdlContext,
    DdlKind,
    TableDdlChange,
    UnparsedDdlError,
    apply,
    apply_changes,
    parse_create_table,
)
from connectors.mysql.schema.model import MySqlTable, TableId

_BASE = "CREATE TABLE t (id INT NOT NULL, a VARCHAR(10), b TEXT CHARACTER SET latin1, PRIMARY KEY (id)) CHARACTER SET latin1"


class Model:
    """The tables of a server, after statements."""

    def __init__(self, *statements: str, is_mariadb: bool = False) -> None:
        self.tables: dict[TableId, MySqlTable] = {}
        self.charsets: dict[str, str] = {}
        self.context = DdlContext(is_mariadb=is_mariadb, server_charset="utf8mb4", database_charsets=self.charsets)
        for statement in statements:
            self.run(statement)

    def run(self, statement: str) -> list[TableDdlChange | DatabaseChange]:
        changes = apply(self.tables, statement, "d", self.context)
        apply_changes(changes, self.tables, self.charsets)
        return changes

    def __getitem__(self, name: str) -> MySqlTable:
        database, _, table = name.rpartition(".")
        return self.tables[TableId(database or "d", table)]

    def names(self, table: str = "t") -> list[str]:
        return [column.name for column in self[table].columns]

    def known(self) -> list[str]:
        return sorted(str(id) for id in self.tables)


def altered(action: str, base: str = _BASE, *, is_mariadb: bool = False) -> MySqlTable:
    model = Model(base, f"ALTER TABLE t {action}", is_mariadb=is_mariadb)
    table = model["t"]
    assert [column.position for column in table.columns] == list(range(1, len(table.columns) + 1))
    return table


@pytest.mark.parametrize(
    ("action", "names"),
    [
        ("ADD c INT", "id a b c"),
        ("ADD COLUMN c INT FIRST", "c id a b"),
        ("ADD COLUMN `c` INT AFTER ID", "id c a b"),
        ("ADD (c INT, d INT, KEY (c))", "id a b c d"),
        ("ADD COLUMN IF NOT EXISTS a INT", "id a b"),
        ("ADD c INT AFTER id, ADD d INT AFTER c, ADD e INT FIRST", "e id c d a b"),
        ("DROP a", "id b"),
        ("DROP COLUMN `a`, DROP B", "id"),
        ("DROP COLUMN IF EXISTS z, DROP COLUMN a CASCADE", "id b"),
        ("ADD COLUMN a INT, DROP COLUMN a", "id b a"),
        ("MODIFY a INT", "id a b"),
        ("MODIFY COLUMN b INT FIRST", "b id a"),
        ("MODIFY a INT AFTER b", "id b a"),
        ("MODIFY COLUMN IF EXISTS z INT", "id a b"),
        ("CHANGE a c INT", "id c b"),
        ("CHANGE COLUMN a A INT NOT NULL FIRST", "A id b"),
        ("CHANGE a b INT, CHANGE b a INT", "id b a"),
        ("CHANGE a c INT, ADD d INT AFTER c", "id c d b"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id b a"),
        ("RENAME COLUMN a TO c, ALGORITHM=INPLACE, LOCK=NONE", "id c b"),
        ("ADD COLUMN first INT AFTER a, ADD COLUMN `after` INT", "id a first b after"),
        ("COMMENT 'ADD COLUMN x INT', ADD c INT", "id a b c"),
        ("ADD c INT COMMENT 'a, DROP COLUMN b'", "id a b c"),
        ("ADD INDEX (a), ADD FULLTEXT KEY f (b), ADD SPATIAL INDEX (b)", "id a b"),
        ("ADD CONSTRAINT k FOREIGN KEY (a) REFERENCES u (x, y) ON DELETE CASCADE, ADD c INT", "id a b c"),
        ("ADD CONSTRAINT CHECK (a > 1), ADD CHECK (b <> ','), DROP CHECK k, DROP FOREIGN KEY f, DROP CONSTRAINT k", "id a b"),
        ("ORDER BY a, b DESC, ADD c INT", "id a b c"),
        ("ENGINE=InnoDB, AUTO_INCREMENT = 7, ROW_FORMAT DYNAMIC, ADD c INT", "id a b c"),
        ("ADD c INT, WITH SYSTEM VERSIONING", "id a b c"),
        ("FORCE, DISABLE KEYS, ENABLE KEYS, DISCARD TABLESPACE", "id a b"),
        ("PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE)", "id a b"),
        ("ADD PARTITION (PARTITION p2 VALUES LESS THAN (20))", "id a b"),
        ("DROP PARTITION p0, p1", "id a b"),
        ("REORGANIZE PARTITION p0, p1 INTO (PARTITION p VALUES LESS THAN (1))", "id a b"),
        ("EXCHANGE PARTITION p WITH TABLE u WITHOUT VALIDATION", "id a b"),
        ("REMOVE PARTITIONING", "id a b"),
        ("ADD c INT PARTITION BY HASH (id) PARTITIONS 4", "id a b c"),
        ("ADD c INT NULL REMOVE PARTITIONING", "id a b c"),
        ("ALTER a SET INVISIBLE, ALTER INDEX x INVISIBLE", "id a b"),
        ("SECONDARY_LOAD", "id a b"),
        ("/*!50100 ADD c INT, */ /* DROP a, */ ADD d INT -- DROP b", "id a b c d"),
    ],
)  # fmt: skip
def test_alter_table_changes_columns_like_the_server(action: str, names: str) -> None:
    assert " ".join(column.name for column in altered(action).columns) == names


@pytest.mark.parametrize(
    ("base", "action", "key"),
    [
        (_BASE, "ADD c INT", ("id",)),
        (_BASE, "DROP PRIMARY KEY", ()),
        (_BASE, "DROP PRIMARY KEY, ADD PRIMARY KEY (a, id)", ("a", "id")),
        (_BASE, "CHANGE id pk BIGINT", ("pk",)),
        (_BASE, "RENAME COLUMN id TO pk", ("pk",)),
        (_BASE, "ADD UNIQUE (a)", ("id",)),
        ("CREATE TABLE t (id INT, a INT)", "ADD c INT PRIMARY KEY", ("c",)),
        ("CREATE TABLE t (id INT, a INT)", "ADD CONSTRAINT x PRIMARY KEY USING BTREE (ID ASC, `a`(10) DESC)", ("id", "a")),
        ("CREATE TABLE t (id INT NOT NULL, a INT)", "ADD UNIQUE KEY u (a), ADD UNIQUE (id)", ("id",)),
        ("CREATE TABLE t (id INT NOT NULL, UNIQUE KEY u (id))", "DROP INDEX u", ()),
        ("CREATE TABLE t (id INT NOT NULL, UNIQUE KEY u (id))", "RENAME INDEX u TO v, DROP KEY u", ()),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE)", "MODIFY id INT", ()),
        ("CREATE TABLE t (id INT UNIQUE)", "MODIFY id INT NOT NULL", ("id",)),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE, a INT NOT NULL UNIQUE)", "DROP INDEX id", ("a",)),
        ("CREATE TABLE t (id INT NOT NULL, a INT NOT NULL, UNIQUE (id, a))", "DROP a", ("id",)),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE)", "ADD id YEAR NOT NULL, DROP id", ("id",)),
        ("CREATE TABLE t (id INT NOT NULL UNIQUE, a INT)", "CHANGE a id INT NOT NULL, DROP id", ()),
        ("CREATE TABLE t (id INT NOT NULL, UNIQUE KEY ((id + 1)))", "ADD a INT", ()),
        ("CREATE TABLE t (id INT NOT NULL, UNIQUE KEY u (id), PRIMARY KEY (id, a), a INT)", "ADD z INT", ("id", "a")),
        # Indexes of prefixes come last, whatever the order of their declarations.
        ("CREATE TABLE t (a VARCHAR(40) NOT NULL, id INT NOT NULL, UNIQUE (a(10)), UNIQUE (id))", "ADD z INT", ("id",)),
        ("CREATE TABLE t (a VARCHAR(40) NOT NULL, id INT NOT NULL, UNIQUE (a(40)), UNIQUE (id))", "ADD z INT", ("a",)),
        ("CREATE TABLE t (a TEXT NOT NULL, i INT NOT NULL, UNIQUE (a(9)))", "CHANGE a b TEXT NOT NULL, ADD UNIQUE (i)", ("i",)),
        ("CREATE TABLE t (a NATIONAL CHAR VARYING(9) NOT NULL, i INT NOT NULL, UNIQUE (a(9)), UNIQUE (i))", "ADD z INT", ("a",)),
        ("CREATE TABLE t (a CHARACTER VARYING(9) NOT NULL, i INT NOT NULL, UNIQUE (a(9)), UNIQUE (i))", "ADD z INT", ("a",)),
        ("CREATE TABLE t (a BLOB NOT NULL, id INT NOT NULL, UNIQUE (a(10), id))", "ADD z INT", ("a", "id")),
        ("CREATE TABLE t (a BLOB NOT NULL, b INT NOT NULL, UNIQUE u (a(9), b), UNIQUE (b))", "DROP a", ("b",)),
        ("CREATE TABLE t (id SERIAL)", "ADD z INT", ("id",)),
    ],
)  # fmt: skip
def test_key_is_the_primary_key_or_the_first_unique_index_without_null(base: str, action: str, key: tuple[str, ...]) -> None:
    table = altered(action, base)
    assert table.key == key
    assert all(not column.optional for column in table.columns if column.name in key)


def test_unknown_indexes_of_debeziums_history_keep_the_key() -> None:
    model = Model("CREATE TABLE t (id INT NOT NULL, a INT NOT NULL, PRIMARY KEY (id))")
    table = model["t"]
    model.tables[table.id] = MySqlTable(table.database, table.name, table.columns, ("id",), table.charset)
    model.run("ALTER TABLE t CHANGE id pk INT, ADD UNIQUE (a)")
    assert model["t"].key == ("pk",)
    assert not model["t"].columns[0].optional
    model.run("ALTER TABLE t DROP PRIMARY KEY, ADD UNIQUE (a)")
    assert model["t"].key == ("a",)


def test_defaults_are_set_and_dropped() -> None:
    columns = altered("ALTER a SET DEFAULT 'x''y', ALTER COLUMN id SET DEFAULT (1 + 1)").columns
    assert (columns[1].default, columns[0].default, columns[0].has_default) == ("x'y", None, True)
    assert not altered("ALTER a DROP DEFAULT").columns[1].has_default
    table = altered("ALTER a DROP DEFAULT", "CREATE TABLE t (a DATETIME DEFAULT now())", is_mariadb=True)
    assert table.columns[0].default == "1970-01-01 00:00:00"  # as MariaDB keeps it
    table = altered("ALTER a SET DEFAULT NULL", "CREATE TABLE t (a DATETIME DEFAULT now())", is_mariadb=True)
    assert table.columns[0].default == "1970-01-01 00:00:00"


def test_columns_that_a_statement_adds_are_altered_and_modified() -> None:
    base = "CREATE TABLE t (id INT)"
    assert altered("ALTER b SET DEFAULT 7, ADD b INT", base).columns[1].default == "7"
    assert not altered("ADD b INT NOT NULL DEFAULT 5, ALTER b DROP DEFAULT", base).columns[1].has_default
    table = altered("ADD b INT FIRST, MODIFY b DATE", base)
    assert [(column.name, column.type_name) for column in table.columns] == [("id", "INT"), ("b", "DATE")]


def test_conversion_changes_the_charset_of_characters_and_the_size_of_texts() -> None:
    base = "CREATE TABLE t (a VARCHAR(9), b TEXT, c BLOB, d TEXT BINARY, e INT) CHARACTER SET latin1"
    table = altered("CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ADD f CHAR(3), ADD g CHAR(3) CHARSET ascii", base)
    assert [(c.type_name, c.charset) for c in table.columns] == [
        ("VARCHAR", "utf8mb4"), ("MEDIUMTEXT", "utf8mb4"), ("BLOB", None), ("MEDIUMTEXT BINARY", "utf8mb4"), ("INT", None),
        ("CHAR", "utf8mb4"), ("CHAR", "utf8mb4"),
    ]  # fmt: skip
    assert table.charset == "utf8mb4"
    table = altered("COLLATE utf8mb4_bin, MODIFY b TEXT CHARSET latin2, CONVERT TO CHARACTER SET ascii, ADD f VARBINARY(3)", base)
    assert [c.charset for c in table.columns] == ["ascii", "ascii", None, "ascii", None, None]
    assert (table.charset, table.column("b")) == ("utf8mb4", replace(table.columns[1], type_name="TEXT"))


def test_default_charset_of_the_table_applies_to_new_columns_only() -> None:
    table = altered("DEFAULT CHARACTER SET = utf8mb4, ADD c TEXT, MODIFY a TEXT")
    assert [c.charset for c in table.columns] == [None, "utf8mb4", "latin1", "utf8mb4"]
    assert altered("COLLATE utf8mb4_bin").charset == "utf8mb4"


def test_charsets_are_inherited_from_database_and_server() -> None:
    model = Model("CREATE TABLE t (a TEXT)", "CREATE DATABASE x CHARACTER SET latin1", "CREATE TABLE x.t (a TEXT)")
    assert (model["t"].charset, model["x.t"].charset) == ("utf8mb4", "latin1")
    model.run("ALTER DATABASE x COLLATE ascii_bin")
    model.run("CREATE TABLE x.u (a TEXT)")
    model.run("CREATE TABLE x.v (a TEXT) COLLATE=koi8r_bin")
    assert [model[name].columns[0].charset for name in ("x.t", "x.u", "x.v")] == ["latin1", "ascii", "koi8r"]
    assert model.run("CREATE DATABASE IF NOT EXISTS x CHARSET utf8") == []
    model.run("CREATE SCHEMA y; CREATE TABLE y.t (a TEXT); DROP DATABASE x")
    assert model.known() == ["d.t", "y.t"]
    assert model.charsets == {"y": "utf8mb4"}


def test_rename_reports_the_previous_name() -> None:
    model = Model(_BASE)
    (change,) = model.run("ALTER TABLE t RENAME TO x.u, ADD c INT")
    assert isinstance(change, TableDdlChange)
    assert (change.kind, change.id, change.previous_id) == (DdlKind.RENAME, TableId("x", "u"), TableId("d", "t"))
    assert model.known() == ["x.u"]
    assert model.names("x.u") == ["id", "a", "b", "c"]


def test_gh_ost_renames_swap_tables() -> None:
    model = Model(_BASE, "CREATE TABLE `d`.`_t_gho` LIKE `d`.`t`", "ALTER TABLE _t_gho ADD c INT")
    changes = model.run("rename /* gh-ost */ table `d`.`t` to `d`.`_t_del`, `d`.`_t_gho` to `d`.`t`")
    assert [str(change.previous_id) for change in changes if isinstance(change, TableDdlChange)] == ["d.t", "d._t_gho"]
    assert model.names("t") == ["id", "a", "b", "c"]
    assert model.names("_t_del") == ["id", "a", "b"]
    model.run("DROP TABLE IF EXISTS `d`.`_t_del` /* generated by server */")
    assert model.known() == ["d.t"]


def test_pt_online_schema_change_leaves_the_new_table() -> None:
    model = Model(_BASE, "CREATE TABLE `d`.`_t_new` (id INT NOT NULL, z INT, PRIMARY KEY (id))")
    model.run("CREATE TRIGGER `pt_osc_d_t_del` AFTER DELETE ON `d`.`t` FOR EACH ROW BEGIN DELETE FROM x; DROP TABLE t; END")
    model.run("RENAME TABLE `d`.`t` TO `d`.`_t_old`, `d`.`_t_new` TO `d`.`t`; DROP TABLE IF EXISTS `d`.`_t_old`")
    assert model.names("t") == ["id", "z"]
    assert model.known() == ["d.t"]


def test_swap_through_a_third_name_in_one_statement() -> None:
    model = Model("CREATE TABLE a (x INT)", "CREATE TABLE b (y INT)", "RENAME TABLE a TO s, b TO a, s TO b")
    assert (model.names("a"), model.names("b")) == (["y"], ["x"])


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("CREATE TABLE n AS SELECT 1 AS x", "its columns are those of a query"),
        ("CREATE TABLE n (a INT) ENGINE=InnoDB SELECT a FROM t", "its columns are those of a query"),
        ("CREATE TABLE n IGNORE AS (SELECT * FROM t)", "its columns are those of a query"),
        ("CREATE TABLE n LIKE other.x", "it has the columns of other.x, which is unknown"),
        ("ALTER TABLE n ADD c INT", "table d.n is unknown"),
        ("RENAME TABLE n TO m", "table d.n is unknown"),
        ("CREATE UNIQUE INDEX u ON n (a)", "table d.n is unknown"),
    ],
)
def test_structure_that_a_statement_does_not_say_is_reported_as_unknown(statement: str, reason: str) -> None:
    (change,) = Model(_BASE).run(statement)
    assert isinstance(change, TableDdlChange)
    assert (change.table, change.unknown) == (None, reason)


def test_unknown_table_replaces_what_was_known() -> None:
    model = Model(_BASE, "CREATE TABLE u (a INT)")
    model.run("DROP TABLE t; CREATE TABLE t AS SELECT * FROM u")
    assert model.known() == ["d.u"]


@pytest.mark.parametrize(
    "statement",
    [
        "BEGIN", "COMMIT", "SAVEPOINT `a`", "XA START 'x'", "INSERT INTO t VALUES ('CREATE TABLE', \"it's\")", "# Dummy event",
        "/* c */ UPDATE t SET a = 'x", "(SELECT 1)", "GRANT ALL ON *.* TO x", "FLUSH TABLES", "ANALYZE TABLE t",
        "OPTIMIZE TABLE t",
        "SET @a = 1", "SET STATEMENT max_statement_time=1 FOR INSERT INTO t VALUES (1)", "CREATE TEMPORARY TABLE t (x INT)",
        "DROP TEMPORARY TABLE IF EXISTS t", "DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t` /* generated by server */",
        "CREATE OR REPLACE ALGORITHM=MERGE DEFINER=`r`@`%` SQL SECURITY DEFINER VIEW v AS SELECT 1", "DROP VIEW v",
        "ALTER VIEW v AS SELECT 1",
        "CREATE DEFINER=`r`@`%` PROCEDURE p() BEGIN DROP TABLE t; CREATE TABLE z (a INT); END", "DROP PROCEDURE p",
        "CREATE FUNCTION f() RETURNS INT RETURN 1", "CREATE TRIGGER x BEFORE INSERT ON t FOR EACH ROW SET NEW.a = 1",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO DROP TABLE t", "CREATE USER u IDENTIFIED BY 'x'", "ALTER USER u ACCOUNT LOCK",
        "DROP ROLE r", "CREATE SEQUENCE s START WITH 1", "ALTER SEQUENCE s RESTART 1", "DROP SEQUENCE s", "RENAME USER a TO b",
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (USER 'x')", "ALTER TABLESPACE x ADD DATAFILE 'y'",
        "ALTER INSTANCE ROTATE X",
        "CREATE SPATIAL REFERENCE SYSTEM 1 NAME 'x'", "CREATE TABLE IF NOT EXISTS t (z INT)", "CREATE TABLE q (a INT) SEQUENCE=1",
        "CREATE FULLTEXT INDEX f ON t (a)", "CREATE UNDO TABLESPACE u ADD DATAFILE 'x'", "", ";", "-- only a comment", "USE x",
        "/*M!100100 DROP TABLE t */", "DROP INDEX i ON unknown_table",
    ],
)  # fmt: skip
def test_statements_about_other_things_change_nothing(statement: str) -> None:
    assert Model(_BASE).run(statement) == []


@pytest.mark.parametrize(
    ("statement", "known"),
    [
        ("DROP TABLE t", ""),
        ("DROP TABLES IF EXISTS u, `d`.`t`, x.y CASCADE", ""),
        ("DROP TABLE t WAIT 5", ""),
        ("SET STATEMENT sql_mode='', lock_wait_timeout=(1 + 1) FOR DROP TABLE t", ""),
        ("/*!50000 DROP TABLE t */", ""),
        ("TRUNCATE t", "d.t"),
        ("TRUNCATE TABLE `d`.t NOWAIT", "d.t"),
        ("USE x; CREATE TABLE u (a INT)", "d.t x.u"),
        ("CREATE OR REPLACE TABLE t (z INT)", "d.t"),
        ("CREATE TABLE `x.y`.`a``b` (`c d` INT)", "d.t x.y.a`b"),
        ("CREATE TABLE x . u (a INT)", "d.t x.u"),
        ("CREATE TABLE 1a.2b (3c INT)", "1a.2b d.t"),
        ("CREATE UNIQUE INDEX u ON t (id) COMMENT 'x'", "d.t"),
        ("DROP INDEX `PRIMARY` ON t", "d.t"),
        ("COMMIT; DROP TABLE t", ""),
    ],
)
def test_statements_about_tables(statement: str, known: str) -> None:
    model = Model(_BASE)
    assert model.run(statement)
    assert " ".join(model.known()) == known


def test_mariadb_executes_its_own_comments_and_not_those_of_mysql_8() -> None:
    text = "CREATE TABLE t (a INT /*!80023 INVISIBLE */, b INT /*M!100302 INVISIBLE */ /*M!, c INT */ /*!50701 , d INT */)"
    assert [c.name for c in parse_create_table(text, "d", DdlContext(is_mariadb=True)).columns] == ["a", "b", "c"]
    assert [c.name for c in parse_create_table(text, "d", DdlContext()).columns] == ["a", "b", "d"]
    assert [c.name for c in parse_create_table(text, "d", DdlContext(server_version=50651)).columns] == ["a", "b"]


def test_system_versioning_of_mariadb() -> None:
    hidden = parse_create_table("CREATE TABLE t (a INT) WITH SYSTEM VERSIONING", "d", DdlContext(is_mariadb=True))
    assert hidden.has_system_versioning
    text = (
        "CREATE TABLE t (a INT, s TIMESTAMP(6) GENERATED ALWAYS AS ROW START, e TIMESTAMP(6) AS ROW END INVISIBLE,"
        " PERIOD FOR SYSTEM_TIME(s, e), PRIMARY KEY (a, e)) WITH SYSTEM VERSIONING PARTITION BY SYSTEM_TIME INTERVAL 1 DAY"
    )
    declared = parse_create_table(text, "d", DdlContext(is_mariadb=True))
    assert not declared.has_system_versioning
    assert [(c.name, c.optional) for c in declared.columns] == [("a", False), ("s", False), ("e", False)]
    assert altered("ADD SYSTEM VERSIONING", is_mariadb=True).has_system_versioning
    assert not altered("DROP SYSTEM VERSIONING", "CREATE TABLE t (a INT) WITH SYSTEM VERSIONING").has_system_versioning


def test_mariadb_converts_partitions_to_tables_and_back() -> None:
    model = Model(_BASE, "ALTER TABLE t CONVERT PARTITION p TO TABLE u", is_mariadb=True)
    assert model.names("u") == ["id", "a", "b"]
    model.run("ALTER TABLE t CONVERT TABLE u TO PARTITION p VALUES LESS THAN (10), (20)")
    assert model.known() == ["d.t"]


def test_names_are_folded_where_the_server_does() -> None:
    context = DdlContext(lower_case_table_names=1)
    (change,) = apply({}, "CREATE TABLE D.T (A INT)", None, context)
    assert isinstance(change, TableDdlChange)
    assert change.id == TableId("d", "t")


def test_failed_create_or_replace_drops_the_table() -> None:
    tables = Model(_BASE).tables
    (change,) = apply(tables, "CREATE OR REPLACE TABLE t (a TEXT PRIMARY KEY)", "d", DdlContext(is_mariadb=True), error_code=1170)
    assert change.kind is DdlKind.DROP
    assert [c.kind for c in apply(tables, "DROP TABLE t, nowhere", "d", error_code=1051)] == [DdlKind.DROP] * 2
    with pytest.raises(UnparsedDdlError, match="error 1234"):
        apply(tables, "ALTER TABLE t ADD z INT", "d", error_code=1234)


@pytest.mark.parametrize(
    ("statement", "reason", "tables"),
    [
        ("ALTER TABLE t DROP z", "table d.t has no column z", ("d.t",)),
        ("ALTER TABLE t ADD a INT", "a column exists already", ("d.t",)),
        ("ALTER TABLE t ADD c INT AFTER z", "table d.t has no column z", ("d.t",)),
        ("ALTER TABLE t MODIFY z INT", "table d.t has no column z", ("d.t",)),
        ("ALTER TABLE t FROBNICATE x", "an action or an option of a table expected, found 'FROBNICATE'", ("d.t",)),
        ("ALTER TABLE t ADD c MONEY", "a data type expected, found 'MONEY'", ("d.t",)),
        ("FROB t", "statement 'FROB' is unknown", ()),
        ("CREATE FROB t", "what CREATE creates expected, found 'FROB'", ()),
        ("DROP FROB t", "what DROP drops expected, found 'FROB'", ()),
        ("ALTER FROB t", "what ALTER alters expected, found 'FROB'", ()),
        ("DROP TABLE t u", "the end expected, found 'u'", ("d.t",)),
        ("RENAME TABLE t u", "TO expected, found 'u'", ("d.t",)),
        ("CREATE TABLE u (a INT, A INT)", "a column is declared twice", ("d.u",)),
        ("CREATE TABLE u (a INT", ") expected, found the end", ("d.u",)),
        ("CREATE TABLE u", "columns expected", ("d.u",)),
        ("CREATE TABLE u (a INT) /*!50100 ENGINE=x", "an executable comment is not closed", ()),
        ("DROP TABLE u; ALTER TABLE t DROP z; TRUNCATE v", "table d.t has no column z", ("d.u", "d.t", "d.v")),
        ("ALTER TABLE t DROP z; FROB v", "table d.t has no column z", ()),
    ],
)
def test_statements_that_do_not_fit_are_refused_with_reason_and_tables(
    statement: str, reason: str, tables: tuple[str, ...]
) -> None:
    model = Model(_BASE)
    with pytest.raises(UnparsedDdlError) as caught:
        model.run(statement)
    assert caught.value.reason == reason
    assert tuple(map(str, caught.value.tables)) == tables
    assert caught.value.statement in statement
    assert caught.value.statement in caught.value.message
    assert model.known() == ["d.t"]


def test_table_without_database_is_refused() -> None:
    with pytest.raises(UnparsedDdlError, match="table t has no database"):
        apply({}, "CREATE TABLE t (a INT)", None)


def test_parse_create_table_refuses_other_statements() -> None:
    with pytest.raises(UnparsedDdlError, match="CREATE TABLE with columns expected"):
        parse_create_table("CREATE VIEW v AS SELECT 1", "d")
