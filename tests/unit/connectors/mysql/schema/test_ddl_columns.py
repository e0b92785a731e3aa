"""Columns of CREATE TABLE: names, numbers of java.sql.Types, sizes, and defaults, as Debezium's history has them."""

from __future__ import annotations

import pytest

from connectors.mysql.schema.ddl import DdlContext, UnparsedDdlError, parse_create_table, sql_mode_flags
from connectors.mysql.schema.model import Column

_CONTEXT = DdlContext(server_charset="utf8mb4")


def column(declaration: str, context: DdlContext = _CONTEXT) -> Column:
    return parse_create_table(f"CREATE TABLE t (c {declaration})", "d", context).columns[0]


@pytest.mark.parametrize(
    ("declaration", "name", "jdbc_type", "length", "scale", "charset"),
    [
        ("INT", "INT", 4, None, None, None),
        ("integer(11) unsigned", "INTEGER UNSIGNED", 4, 11, None, None),
        ("INT(5) ZEROFILL", "INT UNSIGNED ZEROFILL", 4, 5, None, None),
        ("BIGINT SIGNED", "BIGINT SIGNED", -5, None, None, None),
        ("INT SIGNED UNSIGNED", "INT UNSIGNED", 4, None, None, None),
        ("tinyint(1)", "TINYINT", -6, 1, None, None),
        ("INT1", "INT1", -6, None, None, None),
        ("MIDDLEINT", "MIDDLEINT", 4, None, None, None),
        ("BOOL", "BOOL", 16, None, None, None),
        ("BOOLEAN", "BOOLEAN", 16, None, None, None),
        ("DEC", "DEC", 3, 10, 0, None),
        ("FIXED(3)", "FIXED", 3, 3, 0, None),
        ("NUMERIC", "NUMERIC", 2, 10, 0, None),
        ("decimal(19,4) unsigned", "DECIMAL UNSIGNED", 3, 19, 4, None),
        ("DECIMAL(19.5)", "DECIMAL", 3, 19, 0, None),
        ("FLOAT(7,3)", "FLOAT", 6, 7, 3, None),
        ("DOUBLE PRECISION(20,2)", "DOUBLE PRECISION", 8, 20, 2, None),
        ("REAL", "REAL", 7, None, None, None),
        ("BIT", "BIT", -7, 1, None, None),
        ("BIT(12)", "BIT", -7, 12, None, None),
        ("TIME(3)", "TIME", 92, 3, None, None),
        ("DATETIME", "DATETIME", 93, None, None, None),
        ("TIMESTAMP(6)", "TIMESTAMP", 2014, 6, None, None),
        ("DATE", "DATE", 91, None, None, None),
        ("YEAR(4)", "YEAR", 4, 4, None, None),
        ("CHAR", "CHAR", 1, None, None, "utf8mb4"),
        ("CHARACTER VARYING(9)", "CHARACTER VARYING", 12, 9, None, "utf8mb4"),
        ("varchar(60) binary", "VARCHAR BINARY", 12, 60, None, "utf8mb4"),
        ("VARCHAR(9) CHARSET latin1", "VARCHAR", 12, 9, None, "latin1"),
        ("VARCHAR(9) COLLATE latin2_general_ci", "VARCHAR", 12, 9, None, "latin2"),
        ("VARCHAR(9) CHARACTER SET latin1 COLLATE latin1_bin", "VARCHAR", 12, 9, None, "latin1"),
        ("VARCHAR(9) CHARACTER SET DEFAULT", "VARCHAR", 12, 9, None, "utf8mb4"),
        ("CHAR(3) ASCII", "CHAR", 1, 3, None, "latin1"),
        ("CHAR(3) UNICODE", "CHAR", 1, 3, None, "ucs2"),
        ("TEXT(20)", "TEXT", 12, 20, None, "utf8mb4"),
        ("LONG VARCHAR", "LONG VARCHAR", 12, None, None, "utf8mb4"),
        ("LONG VARBINARY", "LONG VARBINARY", 2004, None, None, None),
        ("NATIONAL VARCHAR(3)", "NATIONAL VARCHAR", -9, 3, None, "utf8"),
        ("NATIONAL CHARACTER VARYING(3)", "NATIONAL CHARACTER VARYING", -9, 3, None, "utf8"),
        ("NCHAR VARCHAR(3)", "NCHAR VARCHAR", -9, 3, None, "utf8"),
        ("NVARCHAR(8) BINARY", "NVARCHAR BINARY", -9, 8, None, "utf8"),
        ("NATIONAL CHAR", "NATIONAL CHAR", -15, 1, None, "utf8"),
        ("VARCHAR(9) CHARACTER SET binary", "VARBINARY", -3, 9, None, None),
        ("TEXT BYTE", "BLOB", 2004, None, None, None),
        ("BINARY(16)", "BINARY", -2, 16, None, None),
        ("VARBINARY(32)", "VARBINARY", -3, 32, None, None),
        ("MEDIUMBLOB", "MEDIUMBLOB", 2004, None, None, None),
        ("ENUM('a','b')", "ENUM", 1, 1, None, "utf8mb4"),
        ("SET('a','b','c') CHARACTER SET latin1", "SET", 1, 5, None, "latin1"),
        ("JSON", "JSON", 1111, None, None, None),
        ("POINT SRID 4326", "POINT", 1111, None, None, None),
        ("GEOMCOLLECTION", "GEOMCOLLECTION", 1111, None, None, None),
        ("VECTOR(3)", "VECTOR", 1111, 3, None, None),
        ("UUID", "UUID", 1111, None, None, None),
        ("INET6", "INET6", 1111, None, None, None),
        ("SERIAL", "BIGINT UNSIGNED", -5, None, None, None),
    ],
)
def test_data_types_have_the_names_and_sizes_of_the_declaration(
    declaration: str, name: str, jdbc_type: int, length: int | None, scale: int | None, charset: str | None
) -> None:
    found = column(declaration)
    assert (found.type_name, found.jdbc_type, found.length, found.scale, found.charset) == (
        name,
        jdbc_type,
        length,
        scale,
        charset,
    )
    assert found.type_expression == name


@pytest.mark.parametrize(("mode", "expected"), [("ANSI", ("FLOAT", 6)), ("REAL_AS_FLOAT", ("FLOAT", 6)), ("", ("REAL", 7))])
def test_real_is_a_float_if_the_sql_mode_says_so(mode: str, expected: tuple[str, int]) -> None:
    table = parse_create_table("CREATE TABLE t (a REAL(5,2) NOT NULL)", "d", DdlContext(sql_mode=sql_mode_flags(mode)))
    (found,) = table.columns
    assert ((found.type_name, found.jdbc_type), found.length, found.scale) == (expected, 5, 2)


@pytest.mark.parametrize(
    ("default", "expected"),
    [
        ("(1)", "1"),
        ("((-1))", "-1"),
        ("('x')", "x"),
        ("(NULL)", None),
        ("(b'11')", "3"),
        ("(now(3))", "1970-01-01 00:00:00"),
        ("((CURRENT_TIMESTAMP))", "1970-01-01 00:00:00"),
        ("(1 + 1)", None),
        ("(uuid())", None),
    ],
)
def test_only_mariadb_stores_a_literal_in_parentheses(default: str, expected: str | None) -> None:
    for is_mariadb, value in ((True, expected), (False, None)):
        table = parse_create_table(f"CREATE TABLE t (a INT DEFAULT {default} NOT NULL)", "d", DdlContext(is_mariadb=is_mariadb))
        assert table.columns[0].default == value


@pytest.mark.parametrize(
    ("declaration", "default"),
    [
        ("INT DEFAULT 5", "5"),
        ("INT DEFAULT -5", "-5"),
        ("INT DEFAULT '-5'", "-5"),
        ("DECIMAL(5,2) DEFAULT +1.50", "+1.50"),
        ("DOUBLE DEFAULT 1e3", "1e3"),
        ("DOUBLE DEFAULT .5", ".5"),
        ("VARCHAR(9) DEFAULT ''", ""),
        ("VARCHAR(9) DEFAULT 'it''s'", "it's"),
        (r"VARCHAR(9) DEFAULT 'it\'s \\ \n'", "it's \\ \n"),
        ('VARCHAR(9) DEFAULT "a""b"', 'a"b'),
        ("VARCHAR(9) DEFAULT _utf8mb4'x' COLLATE utf8mb4_bin", "x"),
        ("VARCHAR(9) DEFAULT N'x'", "x"),
        ("VARCHAR(9) DEFAULT 'a' 'b'", "ab"),
        ("VARCHAR(9) DEFAULT 'NULL'", "NULL"),
        ("VARCHAR(9) DEFAULT x'4142'", "AB"),
        ("BINARY(2) DEFAULT 0xFFFE", None),
        ("BIT(4) DEFAULT b'0101'", "0101"),
        ("BIT(8) DEFAULT 0x0F", "1111"),
        ("BIT(8) DEFAULT 10", "1010"),
        ("BIT(8) DEFAULT +2.5", "11"),
        ("BIT(8) DEFAULT 0", "0"),
        ("BIT(8) DEFAULT '1'", "110001"),
        ("INT DEFAULT b'101'", "5"),
        ("INT DEFAULT 0x10", "16"),
        ("BOOLEAN DEFAULT TRUE", "TRUE"),
        ("DATE DEFAULT DATE '2020-01-02'", "2020-01-02"),
        ("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", "1970-01-01 00:00:00"),
        ("DATETIME DEFAULT now()", "1970-01-01 00:00:00"),
        ("DATETIME DEFAULT LOCALTIMESTAMP", "1970-01-01 00:00:00"),
        ("VARCHAR(40) DEFAULT (uuid())", None),
        ("VARCHAR(40) DEFAULT uuid()", None),
        ("INT DEFAULT nextval(`d`.`s`)", None),
        ("INT DEFAULT (NEXT VALUE FOR d.s)", None),
        ("INT DEFAULT NEXT VALUE FOR d.s", None),
        ("VARCHAR(40) DEFAULT CURRENT_USER", None),
        ("VARCHAR(40) DEFAULT current_user()", None),
    ],
)
def test_defaults_are_values_and_expressions_are_unknown(declaration: str, default: str | None) -> None:
    for suffix in ("", " NOT NULL", " COMMENT 'DEFAULT 7, )'"):
        found = column(declaration + suffix)
        assert (found.has_default, found.default) == (True, default)
        assert found.optional == (suffix != " NOT NULL")


@pytest.mark.parametrize(
    "declaration", ["INT", "INT NULL", "INT DEFAULT NULL", "INT AS (1 + (2)) VIRTUAL", "INT NULL DEFAULT NULL"]
)
def test_nullable_column_without_default_has_the_default_null(declaration: str) -> None:
    found = column(declaration)
    assert (found.optional, found.has_default, found.default) == (True, True, None)


def test_not_null_column_without_default_has_none() -> None:
    found = column("INT NOT NULL")
    assert (found.optional, found.has_default, found.default) == (False, False, None)


@pytest.mark.parametrize(
    "attributes",
    [
        "GENERATED ALWAYS AS (concat(`a`, ')', \"(\")) STORED NOT NULL",
        "AS (1) PERSISTENT UNIQUE COMMENT 'x'",
        "NOT NULL CHECK (c > 1) NOT ENFORCED",
        "CONSTRAINT k CHECK (c in (1, 2)) NOT NULL",
        "CONSTRAINT CHECK (c > 1)",
        "REFERENCES other (id) ON DELETE SET NULL ON UPDATE NO ACTION NOT NULL",
        "COLUMN_FORMAT DYNAMIC STORAGE DISK INVISIBLE",
        "/*!80023 INVISIBLE */ /*!50606 STORAGE DISK */",
        "ENGINE_ATTRIBUTE '{\"a\": 1}' SECONDARY_ENGINE_ATTRIBUTE = 'x'",
        "WITHOUT SYSTEM VERSIONING",
        "IETF_QUOTES=YES FLAG=7",
        "NOT SECONDARY",
    ],
)
def test_attributes_that_do_not_matter_are_read_over(attributes: str) -> None:
    table = parse_create_table(f"CREATE TABLE t (c INT {attributes}, z INT)", "d", _CONTEXT)
    assert [c.name for c in table.columns] == ["c", "z"]


@pytest.mark.parametrize(
    "declaration", ["VARCHAR(9) COMPRESSED CHARACTER SET latin1", "VARCHAR(9) /*M!100301 COMPRESSED*/ CHARSET latin1"]
)
def test_compressed_column_of_mariadb_has_its_charset(declaration: str) -> None:
    assert column(declaration, DdlContext(is_mariadb=True)).charset == "latin1"


def test_enum_values_are_unquoted_and_unescaped() -> None:
    assert column(r"ENUM('a','it''s','b\'c','d\\e','f,g',' h  ')").enum_values == ("a", "it's", "b'c", "d\\e", "f,g", " h")


def test_auto_increment_and_on_update_set_debeziums_flags() -> None:
    assert column("INT AUTO_INCREMENT PRIMARY KEY").is_generated
    assert column("DATETIME ON UPDATE CURRENT_TIMESTAMP").is_auto_incremented
    assert column("DATETIME DEFAULT NOW() ON UPDATE NOW()").is_auto_incremented
    assert not column("DATETIME DEFAULT NOW() ON UPDATE NOW()", DdlContext(is_mariadb=True)).is_auto_incremented
    assert not column("DATETIME DEFAULT NOW()").is_auto_incremented


def test_timestamp_without_null_is_not_null_where_the_server_says_so() -> None:
    context = DdlContext(explicit_defaults_for_timestamp=False)
    table = parse_create_table("CREATE TABLE t (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP NULL, d DATETIME)", "d", context)
    assert [(c.optional, c.default) for c in table.columns] == [
        (False, "1970-01-01 00:00:00"),
        (False, "0000-00-00 00:00:00"),
        (True, None),
        (True, None),
    ]


def test_sql_modes_change_quotes_and_escapes() -> None:
    ansi = DdlContext(sql_mode=sql_mode_flags("STRICT_ALL_TABLES,ANSI_QUOTES"))
    assert parse_create_table('CREATE TABLE "t" ("a""b" INT)', "d", ansi).columns[0].name == 'a"b'
    plain = DdlContext(sql_mode=sql_mode_flags("NO_BACKSLASH_ESCAPES"))
    assert column(r"VARCHAR(9) DEFAULT '\'", plain).default == "\\"
    oracle = DdlContext(is_mariadb=True, sql_mode=sql_mode_flags("ORACLE"))
    assert column("NUMBER(8,2)", oracle).type_name == "DECIMAL"
    assert column("VARCHAR2(9)", oracle).type_name == "VARCHAR"
    assert column("DATE", oracle).type_name == "DATETIME"
    assert column("mariadb_schema.DATE", oracle).type_name == "DATE"


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ("NUMBER(3)", "a data type expected, found 'NUMBER'"),
        ("INT FOO", "an attribute of a column expected, found 'FOO'"),
        ("INT DEFAULT", "a default expected"),
        ("VARCHAR(x)", "a number expected, found 'x'"),
        ("ENUM()", "a string expected"),
        ("INT DEFAULT 'a", "a quote or a comment is not closed"),
    ],
)
def test_declarations_that_are_not_understood_are_refused_with_the_reason(declaration: str, reason: str) -> None:
    with pytest.raises(UnparsedDdlError) as caught:
        column(declaration)
    assert caught.value.reason.startswith(reason)
    assert declaration in caught.value.statement
