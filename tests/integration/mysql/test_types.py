"""What columns of MariaDB become: values of a query and values of the binary log are decoded to the same, expected, values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import END_OF_DAY
from connect.data.schema import Schema, Type
from connect.data.struct import Struct, validate_value
from connect.errors import DataError
from connectors.mysql.binlog import ColumnReader, RowDecoder, RowsEvent, RowsKind
from connectors.mysql.schema.model import Column
from connectors.mysql.types import MySqlColumnType, MySqlTypeSettings, column_type
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.support.mariadb_log import BinaryLog

_DEFAULT = MySqlTypeSettings()
_CONNECT = replace(_DEFAULT, time_mode="connect")
_ISO = replace(_DEFAULT, time_mode="isostring")
_STRUCTURED = replace(_DEFAULT, time_mode="structured")
_MICROS = replace(_DEFAULT, time_mode="microseconds")
_NANOS = replace(_DEFAULT, time_mode="nanoseconds")
_ADAPTIVE = replace(_DEFAULT, time_mode="adaptive")
_NO_CENTURY = replace(_DEFAULT, adjusts_years=False)
_PRECISE = replace(_DEFAULT, unsigned_bigint_mode="precise")
_DEC_STRING = replace(_DEFAULT, decimal_mode="string")
_DEC_DOUBLE = replace(_DEFAULT, decimal_mode="double")
_HEX, _BASE64, _URL = (replace(_DEFAULT, binary_mode=mode) for mode in ("hex", "base64", "base64-url-safe"))


@dataclass(frozen=True)
class Case:
    """A column, its values in SQL, and for each settings the type of its schema and the values of events."""

    sql: str
    type_name: str
    values: Sequence[str]
    expected: Sequence[tuple[MySqlTypeSettings, Type, str | None, Sequence[Any]]]
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    enum_values: tuple[str, ...] = ()
    parameters: dict[str, str] = field(default_factory=dict)


def plain(
    sql: str, type_: Type, *pairs: tuple[str, Any], name: str | None = None, type_name: str | None = None, **more: Any
) -> Case:
    """A case with one schema."""
    settings = more.pop("settings", _DEFAULT)
    expected = (settings, type_, name, [value for _, value in pairs])
    return Case(sql, type_name or sql, [value for value, _ in pairs], [expected], **more)


def parts(*values: Any) -> tuple[Any, ...]:
    """The values of a struct."""
    return values


_POINT_WKB = "0101000000000000000000f03f00000000000000c0"
_TIME, _DATA = "io.debezium.time.", "io.debezium.data."
_DECIMAL = "org.apache.kafka.connect.data.Decimal"
_DATETIME6 = (
    "'2024-02-29 23:59:59.999999'",
    "'1969-12-31 23:59:59.000001'",
    "'0000-00-00'",
    "'2024-00-15 01:02:03'",
    "'0018-04-01'",
)
_INT64_MAX = 9223372036854775807
_NO_UUID = "00000000-0000-0000-0000-000000000000"

CASES: list[Case] = [
    plain("TINYINT", Type.INT8, ("-128", -128), ("127", 127), ("0", 0)),
    plain("TINYINT(1)", Type.INT8, ("1", 1), ("-5", -5), type_name="TINYINT", length=1),
    plain("TINYINT(1)", Type.BOOLEAN, ("1", True), ("0", False), ("-5", True), type_name="BOOLEAN"),
    plain("TINYINT UNSIGNED", Type.INT16, ("0", 0), ("255", 255)),
    plain("SMALLINT", Type.INT16, ("-32768", -32768), ("32767", 32767)),
    plain("SMALLINT UNSIGNED", Type.INT32, ("65535", 65535)),
    plain("MEDIUMINT", Type.INT32, ("-8388608", -8388608), ("8388607", 8388607)),
    plain("MEDIUMINT UNSIGNED", Type.INT32, ("16777215", 16777215)),
    plain("INT", Type.INT32, ("-2147483648", -2147483648), ("2147483647", 2147483647)),
    plain("INT UNSIGNED", Type.INT64, ("4294967295", 4294967295)),
    plain("INT(10) ZEROFILL", Type.INT64, ("5", 5), ("4294967295", 4294967295), type_name="INT UNSIGNED ZEROFILL", length=10),
    plain("BIGINT", Type.INT64, ("-9223372036854775808", -_INT64_MAX - 1), ("9223372036854775807", _INT64_MAX)),
    plain("BIGINT UNSIGNED", Type.INT64, ("9223372036854775807", _INT64_MAX), ("0", 0)),
    plain(
        "BIGINT UNSIGNED",
        Type.BYTES,
        ("18446744073709551615", Decimal(2**64 - 1)),
        ("0", Decimal(0)),
        name=_DECIMAL,
        settings=_PRECISE,
        parameters={"scale": "0", "connect.decimal.precision": "20"},
    ),
    plain("YEAR", Type.INT32, ("1901", 1901), ("2155", 2155), ("0", 0), ("18", 2018), name=_TIME + "Year"),
    plain(
        "FLOAT",
        Type.FLOAT32,
        ("16777217", 16777216.0),
        ("0.1", 0.10000000149011612),
        ("-0e0", -0.0),
        ("1.5e-45", 1.401298464324817e-45),
        ("3.402823466e38", 3.4028234663852886e38),
    ),
    plain("FLOAT(7,2)", Type.FLOAT64, ("1.1", 1.100000023841858), type_name="FLOAT", length=7, scale=2),
    plain("FLOAT(10)", Type.FLOAT32, ("1.1", 1.100000023841858), type_name="FLOAT", length=10),
    plain("FLOAT(53)", Type.FLOAT64, ("1.1", 1.1), type_name="FLOAT", length=53),
    plain(
        "DOUBLE",
        Type.FLOAT64,
        ("-1.5e100", -1.5e100),
        ("0.1", 0.1),
        ("1e0/3", 0.3333333333333333),
        ("2.2250738585072014e-308", 2.2250738585072014e-308),
    ),
    plain(
        "DOUBLE(20,3)",
        Type.FLOAT64,
        ("1.0005", 1.0),
        ("12345678901234567.891", 12345678901234568.0),
        type_name="DOUBLE",
        length=20,
        scale=3,
    ),
    plain("DOUBLE UNSIGNED ZEROFILL", Type.FLOAT64, ("1.5", 1.5)),
    plain("REAL", Type.FLOAT64, ("0.1", 0.1)),
    Case(
        "DECIMAL(65,30)",
        "DECIMAL",
        ["-" + "9" * 35 + "." + "9" * 30, "1e-30", "0"],
        [
            (_DEFAULT, Type.BYTES, _DECIMAL, [Decimal("-" + "9" * 35 + "." + "9" * 30), Decimal("1e-30"), Decimal("0e-30")]),
            (_DEC_STRING, Type.STRING, None, ["-" + "9" * 35 + "." + "9" * 30, "0." + "0" * 29 + "1", "0." + "0" * 30]),
            (_DEC_DOUBLE, Type.FLOAT64, None, [-1e35, 1e-30, 0.0]),
        ],
        65,
        30,
        parameters={"scale": "30", "connect.decimal.precision": "65"},
    ),
    plain(
        "DECIMAL",
        Type.BYTES,
        ("-12", Decimal(-12)),
        ("0", Decimal(0)),
        name=_DECIMAL,
        length=10,
        scale=0,
        parameters={"scale": "0", "connect.decimal.precision": "10"},
    ),
    Case(
        "DECIMAL(7,2) ZEROFILL",
        "DECIMAL UNSIGNED ZEROFILL",
        ["1.5", "0"],
        [
            (_DEFAULT, Type.BYTES, _DECIMAL, [Decimal("1.50"), Decimal("0.00")]),
            (_DEC_STRING, Type.STRING, None, ["1.50", "0.00"]),
            (_DEC_DOUBLE, Type.FLOAT64, None, [1.5, 0.0]),
        ],
        7,
        2,
    ),
    plain("BIT(1)", Type.BOOLEAN, ("b'1'", True), ("b'0'", False), type_name="BIT", length=1),
    plain(
        "BIT(10)",
        Type.BYTES,
        ("b'1000000010'", b"\x02\x02"),
        ("1", b"\x01\0"),
        name=_DATA + "Bits",
        type_name="BIT",
        length=10,
        parameters={"length": "10"},
    ),
    plain(
        "BIT(64)",
        Type.BYTES,
        ("18446744073709551615", b"\xff" * 8),
        ("23989979", bytes([219, 14, 110, 1, 0, 0, 0, 0])),
        name=_DATA + "Bits",
        type_name="BIT",
        length=64,
    ),
    # --- dates and times
    Case(
        "DATE",
        "DATE",
        ["'2024-02-29'", "'0000-00-00'", "'9999-12-31'", "'2024-00-15'", "'0018-04-01'", "'0078-04-01'", "'0000-01-01'"],
        [
            (_DEFAULT, Type.INT32, _TIME + "Date", [19782, None, 2932896, None, 17622, 3012, None]),
            (_NO_CENTURY, Type.INT32, _TIME + "Date", [19782, None, 2932896, None, -712863, -690948, None]),
            (_MICROS, Type.INT32, _TIME + "Date", [19782, None, 2932896, None, 17622, 3012, None]),
            (
                _CONNECT,
                Type.INT32,
                "org.apache.kafka.connect.data.Date",
                [dt.date(2024, 2, 29), None, dt.date(9999, 12, 31), None, dt.date(2018, 4, 1), dt.date(1978, 4, 1), None],
            ),
            (
                _ISO,
                Type.STRING,
                _TIME + "IsoDate",
                ["2024-02-29Z", None, "9999-12-31Z", None, "2018-04-01Z", "1978-04-01Z", None],
            ),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredDate",
                [
                    parts(2024, 2, 29, None),
                    parts(0, 0, 0, None),
                    parts(9999, 12, 31, None),
                    parts(2024, 0, 15, None),
                    parts(2018, 4, 1, None),
                    parts(1978, 4, 1, None),
                    parts(0, 1, 1, None),
                ],
            ),
        ],
    ),
    Case(
        "DATETIME",
        "DATETIME",
        ["'2018-04-01 12:34:56'", "'0000-00-00'", "'9999-12-31 23:59:59'", "'2024-00-15 01:02:03'", "'0018-04-01 12:34:56'"],
        [
            (_DEFAULT, Type.INT64, _TIME + "Timestamp", [1522586096000, None, 253402300799000, None, 1522586096000]),
            (_NO_CENTURY, Type.INT64, _TIME + "Timestamp", [1522586096000, None, 253402300799000, None, -61591317904000]),
            (_ADAPTIVE, Type.INT64, _TIME + "Timestamp", [1522586096000, None, 253402300799000, None, 1522586096000]),
            (_MICROS, Type.INT64, _TIME + "MicroTimestamp", [1522586096000000, None, 253402300799000000, None, 1522586096000000]),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredTimestamp",
                [
                    parts(2018, 4, 1, 12, 34, 56, 0, None, None),
                    parts(0, 0, 0, 0, 0, 0, 0, None, None),
                    parts(9999, 12, 31, 23, 59, 59, 0, None, None),
                    parts(2024, 0, 15, 1, 2, 3, 0, None, None),
                    parts(2018, 4, 1, 12, 34, 56, 0, None, None),
                ],
            ),
        ],
    ),
    Case(
        "DATETIME(3)",
        "DATETIME",
        ["'2014-09-08 17:51:04.777'", "'1969-12-31 23:59:59.001'", "'0000-00-00'"],
        [
            (_DEFAULT, Type.INT64, _TIME + "Timestamp", [1410198664777, -999, None]),
            (_MICROS, Type.INT64, _TIME + "MicroTimestamp", [1410198664777000, -999000, None]),
        ],
        3,
    ),
    Case(
        "DATETIME(6)",
        "DATETIME",
        _DATETIME6,
        [
            (_DEFAULT, Type.INT64, _TIME + "MicroTimestamp", [1709251199999999, -999999, None, None, 1522540800000000]),
            (_NANOS, Type.INT64, _TIME + "NanoTimestamp", [1709251199999999000, -999999000, None, None, 1522540800000000000]),
            (
                _CONNECT,
                Type.INT64,
                "org.apache.kafka.connect.data.Timestamp",
                [
                    dt.datetime(2024, 2, 29, 23, 59, 59, 999000, dt.UTC),
                    dt.datetime(1969, 12, 31, 23, 59, 59, 0, dt.UTC),
                    None,
                    None,
                    dt.datetime(2018, 4, 1, tzinfo=dt.UTC),
                ],
            ),
            (
                _ISO,
                Type.STRING,
                _TIME + "IsoTimestamp",
                ["2024-02-29T23:59:59.999999Z", "1969-12-31T23:59:59.000001Z", None, None, "2018-04-01T00:00:00Z"],
            ),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredTimestamp",
                [
                    parts(2024, 2, 29, 23, 59, 59, 999999000, None, 6),
                    parts(1969, 12, 31, 23, 59, 59, 1000, None, 6),
                    parts(0, 0, 0, 0, 0, 0, 0, None, 6),
                    parts(2024, 0, 15, 1, 2, 3, 0, None, 6),
                    parts(2018, 4, 1, 0, 0, 0, 0, None, 6),
                ],
            ),
        ],
        6,
    ),
    Case(
        "DATETIME(1)",
        "DATETIME",
        ["'2024-02-29 23:59:59.9'", "'0000-00-00'"],
        [(_ISO, Type.STRING, _TIME + "IsoTimestamp", ["2024-02-29T23:59:59.9Z", None])],
        1,
    ),
    Case(
        "TIMESTAMP NULL",
        "TIMESTAMP",
        ["'2014-09-08 17:51:04'", "'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'"],
        [
            (
                _DEFAULT,
                Type.STRING,
                _TIME + "ZonedTimestamp",
                ["2014-09-08T17:51:04Z", "1970-01-01T00:00:01Z", "2038-01-19T03:14:07Z", None],
            ),
            (
                _CONNECT,
                Type.STRING,
                _TIME + "ZonedTimestamp",
                ["2014-09-08T17:51:04Z", "1970-01-01T00:00:01Z", "2038-01-19T03:14:07Z", None],
            ),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredZonedTimestamp",
                [
                    parts(2014, 9, 8, 17, 51, 4, 0, 0, "Z", None, None),
                    parts(1970, 1, 1, 0, 0, 1, 0, 0, "Z", None, None),
                    parts(2038, 1, 19, 3, 14, 7, 0, 0, "Z", None, None),
                    parts(0, 0, 0, 0, 0, 0, 0, 0, "Z", None, None),
                ],
            ),
        ],
    ),
    Case(
        "TIMESTAMP(2) NULL",
        "TIMESTAMP",
        ["'2014-09-08 17:51:04.78'", "'2024-01-01 00:00:00'", "'0000-00-00'"],
        [(_DEFAULT, Type.STRING, _TIME + "ZonedTimestamp", ["2014-09-08T17:51:04.78Z", "2024-01-01T00:00:00.00Z", None])],
        2,
    ),
    Case(
        "TIMESTAMP(6) NULL",
        "TIMESTAMP",
        ["'2014-09-08 17:51:04.000007'", "'0000-00-00'"],
        [
            (_DEFAULT, Type.STRING, _TIME + "ZonedTimestamp", ["2014-09-08T17:51:04.000007Z", None]),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredZonedTimestamp",
                [parts(2014, 9, 8, 17, 51, 4, 7000, 0, "Z", None, 6), parts(0, 0, 0, 0, 0, 0, 0, 0, "Z", None, 6)],
            ),
        ],
        6,
    ),
    Case(
        "TIME",
        "TIME",
        ["'-838:59:59'", "'838:59:59'", "'-00:00:01'", "'00:00:00'", "'24:00:00'"],
        [
            (_DEFAULT, Type.INT64, _TIME + "MicroTime", [-3020399000000, 3020399000000, -1000000, 0, 86400000000]),
            (_NANOS, Type.INT64, _TIME + "NanoTime", [-3020399000000000, 3020399000000000, -1000000000, 0, 86400000000000]),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredDuration",
                [
                    parts(0, 0, 0, -838, -59, -59, 0, None),
                    parts(0, 0, 0, 838, 59, 59, 0, None),
                    parts(0, 0, 0, 0, 0, -1, 0, None),
                    parts(0, 0, 0, 0, 0, 0, 0, None),
                    parts(0, 0, 0, 24, 0, 0, 0, None),
                ],
            ),
        ],
    ),
    Case(
        "TIME(3)",
        "TIME",
        ["'17:51:04.777'", "'00:00:00'", "'24:00:00'"],
        [
            (_DEFAULT, Type.INT64, _TIME + "MicroTime", [64264777000, 0, 86400000000]),
            (_ADAPTIVE, Type.INT32, _TIME + "Time", [64264777, 0, 86400000]),
            (_CONNECT, Type.INT32, "org.apache.kafka.connect.data.Time", [dt.time(17, 51, 4, 777000), dt.time(0), END_OF_DAY]),
            (_ISO, Type.STRING, _TIME + "IsoTime", ["17:51:04.777Z", "00:00:00Z", "00:00:00Z"]),
        ],
        3,
    ),
    Case(
        "TIME(6)",
        "TIME",
        ["'-733:00:00.001100'", "'-00:20:38.000000'", "'17:51:04.000001'"],
        [
            (_DEFAULT, Type.INT64, _TIME + "MicroTime", [-2638800001100, -1238000000, 64264000001]),
            (_ADAPTIVE, Type.INT64, _TIME + "MicroTime", [-2638800001100, -1238000000, 64264000001]),
            (
                _STRUCTURED,
                Type.STRUCT,
                _TIME + "StructuredDuration",
                [parts(0, 0, 0, -733, 0, 0, -1100000, 6), parts(0, 0, 0, 0, -20, -38, 0, 6), parts(0, 0, 0, 17, 51, 4, 1000, 6)],
            ),
        ],
        6,
    ),
    # --- texts
    plain(
        "CHAR(10)",
        Type.STRING,
        ("'trailing  '", "trailing"),
        ("''", ""),
        ("'ü𝄞'", "ü𝄞"),
        type_name="CHAR",
        length=10,
        charset="utf8mb4",
    ),
    plain("VARCHAR(40)", Type.STRING, ("'trailing  '", "trailing  "), ("'产品'", "产品"), type_name="VARCHAR", length=40),
    plain(
        "VARCHAR(300) COMPRESSED", Type.STRING, ("REPEAT('ü', 300)", "ü" * 300), ("'few'", "few"), type_name="VARCHAR", length=300
    ),
    plain("TEXT CHARACTER SET utf8mb3", Type.STRING, ("'é\\0x'", "é\0x"), type_name="TEXT", charset="utf8mb3"),
    plain(
        "VARCHAR(9) CHARACTER SET latin1",
        Type.STRING,
        ("'é€'", "é€"),
        ("x'818D8F909D80'", "\x81\x8d\x8f\x90\x9d€"),
        ("'abc'", "abc"),
        type_name="VARCHAR",
        length=9,
        charset="latin1",
    ),
    plain("CHAR(9) CHARACTER SET latin1", Type.STRING, ("'é  '", "é"), type_name="CHAR", length=9, charset="latin1"),
    plain("CHAR(5) CHARACTER SET ucs2", Type.STRING, ("'é '", "é"), ("'品'", "品"), type_name="CHAR", length=5, charset="ucs2"),
    plain("CHAR(5) CHARACTER SET utf16", Type.STRING, ("'𝄞'", "𝄞"), type_name="CHAR", length=5, charset="utf16"),
    plain("VARCHAR(5) CHARACTER SET utf16le", Type.STRING, ("'𝄞 '", "𝄞 "), type_name="VARCHAR", length=5, charset="utf16le"),
    plain("TEXT CHARACTER SET utf32", Type.STRING, ("'𝄞é'", "𝄞é"), type_name="TEXT", charset="utf32"),
    plain("TEXT CHARACTER SET ascii", Type.STRING, ("'plain'", "plain"), type_name="TEXT", charset="ascii"),
    plain("TEXT CHARACTER SET gbk", Type.STRING, ("'产品'", "产品"), type_name="TEXT", charset="gbk"),
    plain("CHAR(9) CHARACTER SET sjis", Type.STRING, ("'製品ｶ '", "製品ｶ"), type_name="CHAR", length=9, charset="sjis"),
    plain("TEXT CHARACTER SET euckr", Type.STRING, ("'갂한'", "갂한"), type_name="TEXT", charset="euckr"),
    plain("TEXT CHARACTER SET koi8r", Type.STRING, ("'Привет'", "Привет"), type_name="TEXT", charset="koi8r"),
    plain("TEXT CHARACTER SET cp1251", Type.STRING, ("'Привет'", "Привет"), type_name="TEXT", charset="cp1251"),
    plain(
        "ENUM('x','ü','a,b','')",
        Type.STRING,
        ("'x'", "x"),
        ("'ü'", "ü"),
        ("'a,b'", "a,b"),
        ("'invalid'", ""),
        name=_DATA + "Enum",
        type_name="ENUM",
        length=1,
        enum_values=("x", "ü", "a,b", ""),
        parameters={"allowed": "x,ü,a\\,b,"},
    ),
    plain(
        "ENUM('é') CHARACTER SET latin1",
        Type.STRING,
        ("'é'", "é"),
        name=_DATA + "Enum",
        type_name="ENUM",
        length=1,
        enum_values=("é",),
    ),
    plain(
        "SET('p','q','r','s','t','u','v','w','z')",
        Type.STRING,
        ("''", ""),
        ("'z,p'", "p,z"),
        name=_DATA + "EnumSet",
        type_name="SET",
        enum_values=tuple("pqrstuvwz"),
        parameters={"allowed": "p,q,r,s,t,u,v,w,z"},
    ),
    plain("JSON", Type.STRING, ('\'{"a": [1, "ü"]}\'', '{"a": [1, "ü"]}'), ("'null'", "null"), name=_DATA + "Json"),
    plain("JSON", Type.STRING, ("'{\"a\": 1}'", '{"a": 1}'), type_name="LONGTEXT", charset="utf8mb4"),
    plain(
        "UUID",
        Type.STRING,
        ("'123e4567-e89b-12d3-a456-426655440000'", "123e4567-e89b-12d3-a456-426655440000"),
        (f"'{_NO_UUID}'", _NO_UUID),
        name=_DATA + "Uuid",
    ),
    plain(
        "INET6",
        Type.STRING,
        ("'2001:db8::ff00:42:8329'", "2001:db8::ff00:42:8329"),
        ("'::'", "::"),
        ("'::ffff:192.0.2.1'", "::ffff:192.0.2.1"),
        ("'::192.0.2.1'", "::192.0.2.1"),
        ("'::1'", "::1"),
        ("'1:0:0:2::'", "1:0:0:2::"),
    ),
    plain("INET4", Type.STRING, ("'192.0.2.0'", "192.0.2.0"), ("'0.0.0.0'", "0.0.0.0")),
    # --- bytes
    Case(
        "BINARY(4)",
        "BINARY",
        ["x'ff00'", "x'00'", "x'01020304'"],
        [
            (_DEFAULT, Type.BYTES, None, [b"\xff\0\0\0", b"\0\0\0\0", b"\1\2\3\4"]),
            (_HEX, Type.STRING, None, ["ff000000", "00000000", "01020304"]),
            (_BASE64, Type.STRING, None, ["/wAAAA==", "AAAAAA==", "AQIDBA=="]),
            (_URL, Type.STRING, None, ["_wAAAA==", "AAAAAA==", "AQIDBA=="]),
        ],
        4,
    ),
    Case(
        "VARBINARY(300)",
        "VARBINARY",
        ["x'ff00'", "''"],
        [
            (_DEFAULT, Type.BYTES, None, [b"\xff\0", b""]),
            (_HEX, Type.STRING, None, ["ff00", ""]),
            (_BASE64, Type.STRING, None, ["/wA=", ""]),
        ],
        300,
    ),
    plain("BLOB", Type.BYTES, ("x'00ff'", b"\0\xff"), ("REPEAT('x', 70)", b"x" * 70)),
    plain("LONGBLOB", Type.BYTES, ("''", b"")),
    plain("BLOB COMPRESSED", Type.BYTES, ("REPEAT('c', 3000)", b"c" * 3000), type_name="BLOB"),
    plain(
        "POINT",
        Type.STRUCT,
        ("POINT(1, -2)", parts(1.0, -2.0, bytes.fromhex(_POINT_WKB), None)),
        ("ST_GeomFromText('POINT(1 -2)', 4326)", parts(1.0, -2.0, bytes.fromhex(_POINT_WKB), 4326)),
        name=_DATA + "geometry.Point",
    ),
    plain(
        "GEOMETRY",
        Type.STRUCT,
        ("POINT(1, -2)", parts(bytes.fromhex(_POINT_WKB), None, None)),
        (
            "ST_GeomFromText('LINESTRING(0 0, 1 1)', 4326)",
            parts(bytes.fromhex("010200000002000000" + "00" * 16 + "000000000000f03f" * 2), 4326, None),
        ),
        name=_DATA + "geometry.Geometry",
    ),
]


def model(case: Case, *, optional: bool = True, name: str = "c") -> Column:
    return Column(
        name, 1, case.type_name, case.type_name, 0, case.length, case.scale, case.charset or "utf8mb4", optional,
        enum_values=case.enum_values,
    )  # fmt: skip


def comparable(value: Any) -> Any:
    """The value in a form in which only equal values of one type are equal."""
    match value:
        case Struct():
            return tuple(value.values)
        case Decimal():
            return value.as_tuple()
        case float():
            return repr(value)
        case END_OF_DAY.__class__():
            return "24:00"
    return (type(value), value)


def expected_form(value: Any) -> Any:
    return value if isinstance(value, tuple) else comparable(value)


class Rows:
    """The rows of a table as a query and as the binary log have them, column by column."""

    def __init__(self, server: EmbeddedMariaDB, database: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        names = [f"c{i}" for i in range(len(columns))]
        self._log = BinaryLog(server, "CRC32")
        self._names = names
        self._server, self._database = server, database
        with server.connect(database, charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
            declared = ", ".join(f"{name} {column}" for name, column in zip(names, columns, strict=True))
            cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, {declared}) CHARACTER SET utf8mb4")
            for number, row in enumerate(rows):
                cursor.execute(f"INSERT INTO t VALUES ({number}, {', '.join(row)})")
        self._events = [event for event in self._log.events() if isinstance(event, RowsEvent) and event.kind is RowsKind.INSERT]

    def selected(self, selects: Sequence[str]) -> list[tuple[Any, ...]]:
        expressions = [select.format(name=f"`{name}`") for select, name in zip(selects, self._names, strict=True)]
        with self._server.connect(self._database, conv={}, charset="utf8mb4") as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION time_zone = '+00:00'")
            cursor.execute(f"SELECT {', '.join(expressions)} FROM t ORDER BY id")
            return list(cursor.fetchall())

    def logged(self, readers: Sequence[ColumnReader]) -> list[tuple[Any, ...]]:
        decoders: dict[Any, RowDecoder] = {}
        found = []
        for event in self._events:
            assert event.table is not None
            decoder = decoders.setdefault(event.table, RowDecoder(event.table, [None, *readers]))
            found += decoder.rows(event)
        return found


def decoded(mapped: MySqlColumnType, value: Any) -> Any:
    if value is None:
        return None
    assert isinstance(value, bytes if mapped.is_bytes else str)
    return mapped.text.decode(value)


def test_queries_and_the_log_have_the_expected_values(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    height = max(len(case.values) for case in CASES)
    # Cases with fewer values repeat the last one. The last row has nulls.
    rows = [[case.values[min(i, len(case.values) - 1)] for case in CASES] for i in range(height)] + [["NULL"] * len(CASES)]
    table = Rows(mariadb, mariadb_database, [case.sql for case in CASES], rows)
    for number in range(max(len(case.expected) for case in CASES)):
        # The last expectation of a case stands for those that it does not have.
        chosen = [case.expected[min(number, len(case.expected) - 1)] for case in CASES]
        mapped = [column_type(model(case, name=f"c{i}"), chosen[i][0]) for i, case in enumerate(CASES)]
        types = [one for one in mapped if one is not None]
        assert len(types) == len(CASES)
        selected = table.selected([one.select for one in types])
        logged = table.logged([one.reader for one in types])
        again = table.logged([one.read_by(one.raw()) for one in types])
        assert len(selected) == len(logged) == height + 1
        for i, (case, (settings, type_, name, values)) in enumerate(zip(CASES, chosen, strict=True)):
            schema = types[i].schema
            where = f"{case.sql} as {case.type_name} with {settings}"
            assert (schema.type, schema.name, schema.optional) == (type_, name, True), where
            if case.parameters and (type_ is Type.BYTES or (type_ is Type.STRING and name)):
                assert schema.parameters == case.parameters, where
            wanted = [expected_form(value) for value in [*values, *[values[-1]] * (height - len(values)), None]]
            assert [comparable(decoded(types[i], row[i])) for row in selected] == wanted, f"query: {where}"
            assert [comparable(row[i]) for row in logged] == wanted, f"log: {where}"
            assert [comparable(row[i]) for row in again] == wanted, f"log, decoded by raw(): {where}"
            for row in logged:
                validate_value(schema, row[i])


_ZERO_DATES = [
    ("DATE NOT NULL", "DATE", None, "'0000-00-00'", None, 0),
    ("DATE NOT NULL", "DATE", None, "'2024-00-15'", "1976-08-23", 2426),
    ("DATETIME NOT NULL", "DATETIME", None, "'0000-00-00'", None, 0),
    ("DATETIME(6) NOT NULL", "DATETIME", 6, "'0000-00-00'", "2018-01-03 00:00:10.123456", 1514937610123456),
    ("TIMESTAMP NOT NULL", "TIMESTAMP", None, "'0000-00-00'", "1970-01-01 00:00:00", "1970-01-01T00:00:00Z"),
    ("TIMESTAMP(3) NOT NULL", "TIMESTAMP", 3, "'0000-00-00'", "2018-01-03 00:00:10.5", "2018-01-03T00:00:10.500Z"),
]


def test_dates_that_are_none_are_the_default_of_a_required_column(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    table = Rows(mariadb, mariadb_database, [case[0] for case in _ZERO_DATES], [[case[3] for case in _ZERO_DATES]])
    mapped = []
    for _, name, length, _, default, _ in _ZERO_DATES:
        column = Column("c", 1, name, name, 0, length, optional=False, has_default=default is not None, default=default)
        found = column_type(column, _DEFAULT)
        assert found is not None
        mapped.append(found)
    (selected,) = table.selected([one.select for one in mapped])
    (logged,) = table.logged([one.reader for one in mapped])
    expected = [case[5] for case in _ZERO_DATES]
    assert [decoded(one, value) for one, value in zip(mapped, selected, strict=True)] == expected
    assert list(logged) == expected


_REFUSED = [
    ("DATE", "DATE", None, _DEFAULT, "'2023-02-30'", "column c: 2023-02-30 is no date"),
    ("DATETIME(3)", "DATETIME", 3, _DEFAULT, "'2023-02-30 01:02:03.5'", "column c: 2023-02-30 01:02:03"),
    ("DATETIME", "DATETIME", None, _NANOS, "'9999-12-31'", "column c: 9999-12-31 00:00:00 is no time that fits 64 bits"),
    ("BIGINT UNSIGNED", "BIGINT UNSIGNED", None, _DEFAULT, "9223372036854775808", "column c: 9223372036854775808 is no 64-bit"),
    ("TIME", "TIME", None, _CONNECT, "'-00:00:01'", "column c: -00:00:01 is no time of a day"),
    ("TIME", "TIME", None, _ISO, "'24:00:01'", "column c: 24:00:01 is no time of a day"),
    ("TIME", "TIME", None, _ADAPTIVE, "'838:59:59'", "column c: 838:59:59 is no time that fits 32 bits"),
    ("TEXT CHARACTER SET ascii", "TEXT", None, _DEFAULT, "x'41FF'", "column c: b'A\\xff' is no text in ascii"),
    ("TEXT CHARACTER SET cp1251", "TEXT", None, _DEFAULT, "x'98'", "column c: b'\\x98' is no text in cp1251"),
]


def test_values_that_do_not_fit_name_the_column(mariadb: EmbeddedMariaDB, mariadb_database: str) -> None:
    """Promise 8."""
    table = Rows(mariadb, mariadb_database, [case[0] for case in _REFUSED], [[case[4] for case in _REFUSED]])
    mapped = []
    for sql, name, length, settings, _, _ in _REFUSED:
        charset = sql.rpartition("SET ")[2] if "SET" in sql else "utf8mb4"
        found = column_type(Column("c", 1, name, name, 0, length, charset=charset), settings)
        assert found is not None
        mapped.append(found)
    (selected,) = table.selected([one.select for one in mapped])
    for i, (*_, message) in enumerate(_REFUSED):
        with pytest.raises(DataError) as in_query:
            mapped[i].text.decode(selected[i])
        assert in_query.value.message.startswith(message)
        readers = [mapped[k].reader if k == i else ColumnReader() for k in range(len(mapped))]
        with pytest.raises(DataError) as in_log:
            table.logged(readers)
        assert f"cannot be read: {message}" in in_log.value.message


def test_schema_is_required_for_columns_that_are_not_null() -> None:
    found = column_type(Column("c", 1, "INT", "INT", 4, optional=False), _DEFAULT)
    assert found is not None
    assert found.schema == Schema.INT32
