"""MySQL's dialect without a server: behavior of MySQL that MariaDB lacks, and properties for all inputs."""

from __future__ import annotations

import struct
from typing import Any

import pymysql
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysql.constants import FIELD_TYPE, FLAG

from connect.data.schema import Schema, SchemaBuilder, Type
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connectors.databases.mysql.protocol import ResultStream
from connectors.databases.mysql.row_decoder import compile_row_decoder
from connectors.jdbc.dialects.mysql.catalog import _column, _keys, _kind
from connectors.jdbc.dialects.mysql.ddl import column_type
from connectors.jdbc.dialects.mysql.dialect import MySqlDialect
from connectors.jdbc.dialects.mysql.errors import classify_error, error_message
from connectors.jdbc.dialects.mysql.literals import literal_for
from connectors.jdbc.dialects.mysql.reader import MySqlReadPlanCache
from connectors.jdbc.dialects.mysql.types import VECTOR, MySqlResultColumn, column_decoder
from connectors.jdbc.dialects.mysql.writer import needs_row_alias, split_rows, upsert_clause
from connectors.jdbc.errors import ErrorKind
from connectors.jdbc.options import ReadOptions, SinkField, WriteOptions
from connectors.jdbc.urls.connection_url import parse_connection_url


def dialect(url: str = "jdbc:mysql://host/shop", **options: Any) -> MySqlDialect:
    return MySqlDialect(parse_connection_url(url, "user", "secret", {}), **options)


@pytest.mark.parametrize(
    ("version", "alias"),
    [
        ("5.7.44-log", False),
        ("8.0.19", False),
        ("8.0.20", True),
        ("8.4.0", True),
        ("9.1.0-commercial", True),
        ("8.0.mysql_aurora.3.04.0", False),
        ("5.5.5-10.6.18-MariaDB", False),
        ("11.4.5-MariaDB-log", False),
        ("unknown", False),
    ],
)
def test_mysql_from_8_0_20_needs_an_alias_for_the_new_row(version: str, alias: bool) -> None:
    assert needs_row_alias(version) is alias


def test_upsert_clause_depends_on_the_server() -> None:
    start = " ON DUPLICATE KEY UPDATE "
    assert upsert_clause("`t`", "`k`", ["`a`", "`b`"], alias=False) == f"{start}`a`=VALUES(`a`),`b`=VALUES(`b`)"
    assert upsert_clause("`t`", "`k`", ["`a`"], alias=True) == f" AS `new row`{start}`a`=`new row`.`a`"
    assert upsert_clause("`d`.`t`", "`k`", [], alias=False) == f"{start}`k`=`d`.`t`.`k`"
    assert upsert_clause("`d`.`t`", "`k`", [], alias=True) == f" AS `new row`{start}`k`=`d`.`t`.`k`"


def test_the_timeout_statement_works_on_mysql_and_mariadb() -> None:
    none = dialect().session_statements(0)
    assert not any("max_" in statement for statement in none)
    *same, last = dialect().session_statements(1500)
    assert tuple(same) == none
    assert "/*!50708 , SESSION max_execution_time = 1500 */" in last
    assert "/*M! , SESSION max_statement_time = 1.500 */" in last


def test_other_drivers_are_rejected() -> None:
    with pytest.raises(ConfigError, match="requires the driver PyMySQL, not mysqldb") as refused:
        dialect("mysql+mysqldb://host/shop")
    assert "secret" not in str(refused.value)


def test_only_jdbc_mariadb_urls_read_booleans() -> None:
    urls = ("jdbc:mariadb://host/shop", "jdbc:mysql://host/shop", "mariadb://host/shop", "mysql+pymysql://host/shop")
    assert [dialect(url)._booleans for url in urls] == [True, False, False, False]


def test_names_that_need_quotes_are_rejected_without_them() -> None:
    assert dialect().quote("a`b") == "`a``b`"
    assert dialect(quotes=False).quote("plain") == "plain"
    with pytest.raises(ConfigError, match="must be quoted"):
        dialect(quotes=False).quote("a b")


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (1045, ErrorKind.AUTHENTICATION),
        (1044, ErrorKind.AUTHENTICATION),
        (1049, ErrorKind.AUTHENTICATION),
        (1698, ErrorKind.AUTHENTICATION),
        (3118, ErrorKind.AUTHENTICATION),
        (1062, ErrorKind.ROW),
        (1048, ErrorKind.ROW),
        (1264, ErrorKind.ROW),
        (1406, ErrorKind.ROW),
        (1366, ErrorKind.ROW),
        (3819, ErrorKind.ROW),
        (4025, ErrorKind.ROW),
        (1452, ErrorKind.ROW),
        (1205, ErrorKind.TRANSIENT),
        (1213, ErrorKind.TRANSIENT),
        (1040, ErrorKind.TRANSIENT),
        (1290, ErrorKind.TRANSIENT),
        (2006, ErrorKind.CONNECTION),
        (2013, ErrorKind.CONNECTION),
        (1927, ErrorKind.CONNECTION),
        (1053, ErrorKind.CONNECTION),
        (1146, ErrorKind.TABLE),
        (1054, ErrorKind.TABLE),
        (3024, ErrorKind.TIMEOUT),
        (1969, ErrorKind.TIMEOUT),
        (1317, ErrorKind.TIMEOUT),
        (1064, ErrorKind.STATEMENT),
        (1142, ErrorKind.STATEMENT),
        (0, ErrorKind.CONNECTION),
    ],
)
def test_errors_are_classified_by_number(number: int, kind: ErrorKind) -> None:
    assert classify_error(pymysql.err.OperationalError(number, "words")) is kind


def test_errors_with_unknown_numbers_are_classified_by_sqlstate() -> None:
    error = pymysql.err.OperationalError(59_999, "a new one")
    assert classify_error(error) is ErrorKind.STATEMENT
    error.sqlstate = "22007"
    assert classify_error(error) is ErrorKind.ROW
    assert classify_error(pymysql.err.InterfaceError(0, "")) is ErrorKind.CONNECTION
    assert classify_error(pymysql.err.Error("Already closed")) is ErrorKind.CONNECTION
    assert classify_error(TimeoutError()) is ErrorKind.CONNECTION
    assert classify_error(RuntimeError("'cryptography' package is required for sha256_password")) is ErrorKind.AUTHENTICATION
    assert classify_error(ValueError()) is ErrorKind.STATEMENT


def test_error_messages_have_the_error_number() -> None:
    assert error_message(pymysql.err.DataError(1406, "Data too\n long")) == "Data too long (error 1406)"
    assert error_message(pymysql.err.OperationalError(1205, "Lock wait timeout exceeded")).startswith(
        "Lock wait timeout exceeded (error 1205); another session holds a lock"
    )
    assert "lower tasks.max" in error_message(pymysql.err.OperationalError(1040, "Too many connections"))
    assert error_message(pymysql.err.InterfaceError(0, "")) == "the connection is closed"
    assert error_message(pymysql.err.Error("Already closed")) == "Already closed"
    assert error_message(KeyError()) == "KeyError"


def test_catalog_columns_may_be_bytes() -> None:
    row = ("id", b"int", b"int unsigned", "NO", None, "auto_increment", None, 10, 0, None)
    column = _column(row)
    assert (column.type_name, column.autoincrement, column.nullable) == ("int unsigned", True, False)
    column = _column(("at", b"datetime", b"datetime(3)", "NO", "NOW(3)", "DEFAULT_GENERATED", None, None, None, 3))
    assert (column.generated, column.has_default, column.native.digits) == (False, True, 3)


def test_indexes_over_expressions_or_prefixes_are_not_keys() -> None:
    rows = [("PRIMARY", "b", None), ("PRIMARY", "a", None), ("e", None, None), ("e", "c", None), ("p", "d", 10), ("u", "c", None)]
    assert _keys(rows) == (("b", "a"), (("c",),))


def test_system_tables_have_their_own_kinds() -> None:
    system = {_kind(space, "BASE TABLE") for space in ("mysql", "performance_schema", "sys")}
    assert (_kind("shop", "BASE TABLE"), system) == ("TABLE", {"SYSTEM TABLE"})
    assert (_kind("shop", "VIEW"), _kind("sys", "VIEW")) == ("VIEW", "SYSTEM VIEW")
    assert _kind("information_schema", "SYSTEM VIEW") == "SYSTEM VIEW"


def result_column(type: int, *, flags: int = 0, charset: int = 255, length: int = 100, decimals: int = 0) -> MySqlResultColumn:
    return MySqlResultColumn("c", type, flags, charset, length, decimals)


@pytest.mark.parametrize(
    ("column", "schema", "data", "value"),
    [
        (result_column(FIELD_TYPE.JSON, charset=63), Schema.OPTIONAL_STRING, '{"ä": 1}'.encode(), '{"ä": 1}'),
        (result_column(VECTOR, charset=63), Schema.OPTIONAL_BYTES, b"\0\0\x80?", b"\0\0\x80?"),
        (result_column(FIELD_TYPE.TINY, length=1), Schema.OPTIONAL_INT8, b"-1", -1),
        (result_column(FIELD_TYPE.LONGLONG, flags=FLAG.UNSIGNED), Schema.OPTIONAL_INT64, b"5", 5),
        (result_column(FIELD_TYPE.VAR_STRING, charset=63), Schema.OPTIONAL_BYTES, b"\xff", b"\xff"),
    ],
)
def test_mysql_specific_types_are_decoded(column: MySqlResultColumn, schema: Schema, data: bytes, value: Any) -> None:
    reading = column_decoder(column, ReadOptions(), booleans=False)
    assert reading is not None
    assert (reading.schema, reading.read(data)) == (schema, value)


def test_a_type_without_mapping_is_an_error_or_skipped(caplog: pytest.LogCaptureFixture) -> None:
    columns = (result_column(FIELD_TYPE.LONG), MySqlResultColumn("new", 244, 0, 63, 10, 0))
    with pytest.raises(DataError, match="Column new has type number 244, which has no mapping"):
        MySqlReadPlanCache().plan(columns, ReadOptions(), None, booleans=False)
    plan = MySqlReadPlanCache().plan(columns, ReadOptions(skip_unsupported=True), None, booleans=False)
    assert plan.fields == (("c", Schema.OPTIONAL_INT32),)
    assert "omitting it" in caplog.text
    packet = lenenc(b"5") + lenenc(b"skipped")
    data = len(packet).to_bytes(4, "little") + packet
    rows: list[Any] = []
    assert plan.decode(data, data.decode("latin-1"), 0, 10, rows, []) == len(data)
    assert rows == [[5]]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_has_the_fewest_digits_that_identify_it(number: float) -> None:
    column = MySqlResultColumn("c", FIELD_TYPE.DOUBLE, 0, 63, 22, 31, exact_float=True)
    reading = column_decoder(column, ReadOptions(), booleans=False)
    assert reading is not None
    found = reading.read(repr(number).encode())
    assert struct.pack("<f", found) == struct.pack("<f", number)
    assert float(f"{found:.9g}") == found
    assert reading.read(b"0.10000000149011612") == 0.1
    assert reading.read(b"3.4028234663852886e38") == 3.4028235e38


class Given:
    """A connection that gives bytes in blocks."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self._data, self._sizes = data, sizes
        self._rfile = self
        self._result = self
        self.unbuffered_active, self.has_next, self.connection = True, False, None
        self.fields: list[Any] = []

    def query(self, sql: str, unbuffered: bool) -> None:
        self.sql = sql

    def read1(self, most: int) -> bytes:
        size = self._sizes.pop(0) if self._sizes else most
        found, self._data = self._data[:size], self._data[size:]
        return found

    read = read1


def lenenc(value: bytes | None) -> bytes:
    if value is None:
        return b"\xfb"
    size = len(value)
    head = (
        bytes([size])
        if size < 251
        else b"\xfc" + size.to_bytes(2, "little")
        if size < 65536
        else b"\xfd" + size.to_bytes(3, "little")
    )
    return head + value


TEXTS = st.one_of(st.none(), st.text(max_size=8).map(str.encode), st.sampled_from([b"", b"x" * 250, b"x" * 251, b"y" * 70_000]))


@given(
    rows=st.lists(st.tuples(TEXTS, st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), TEXTS), max_size=12),
    sizes=st.lists(st.integers(1, 300), max_size=60),
    most=st.integers(1, 7),
)
def test_rows_are_complete_wherever_blocks_end(rows: list[tuple[Any, ...]], sizes: list[int], most: int) -> None:
    packets = [b"".join(lenenc(str(v).encode() if isinstance(v, int) else v) for v in row) for row in rows]
    packets.append(b"\xfe\0\0\2\0")
    data = b"".join(len(packet).to_bytes(3, "little") + bytes([n % 256]) + packet for n, packet in enumerate(packets))
    text, number = result_column(FIELD_TYPE.VAR_STRING), result_column(FIELD_TYPE.LONGLONG)
    readings = [column_decoder(column, ReadOptions(), booleans=False) for column in (text, number, text)]
    decode = compile_row_decoder(("a", "b", "c"), readings, [1])
    stream = ResultStream(Given(data, sizes), "select")
    found: list[Any] = []
    exact: list[Any] = []
    while not stream.ended:
        part: list[Any] = []
        stream.at = decode(stream.data, stream.text, stream.at, most, part, exact)
        assert len(part) <= most
        found += part
        if len(part) < most:
            stream.advance()
    assert found == [[value.decode() if isinstance(value, bytes) else value for value in row] for row in rows]
    assert exact == [(row[1],) for row in rows]


def test_an_undecodable_value_names_its_column() -> None:
    columns = (result_column(FIELD_TYPE.VAR_STRING), MySqlResultColumn("price", FIELD_TYPE.LONG, 0, 63, 11, 0))
    decode = compile_row_decoder(
        [column.name for column in columns], [column_decoder(column, ReadOptions(), booleans=False) for column in columns], []
    )
    packet = lenenc(b"fine") + lenenc(b"12x")
    data = len(packet).to_bytes(4, "little") + packet
    with pytest.raises(DataError, match=r"Column price: b'12x' cannot be decoded as int32"):
        decode(data, data.decode("latin-1"), 0, 10, [], [])


def test_statements_are_split_between_rows() -> None:
    rows = ["aaaa", "bb", "cccccccccccc", "d", "e"]
    assert list(split_rows(rows, 8)) == [["aaaa", "bb"], ["cccccccccccc"], ["d", "e"]]
    assert list(split_rows([], 8)) == []


def test_an_array_of_floats_can_be_written_to_a_vector() -> None:
    row = ("v", b"vector", b"vector(2)", "YES", None, "", 8, None, None, None)
    field = SinkField("v", Schema(Type.ARRAY, value_schema=Schema.FLOAT32))
    assert literal_for(field, _column(row), WriteOptions()).write([1.0, 2.5]) == "X'0000803f00002040'"
    of_text = literal_for(SinkField("v", Schema.STRING), _column(row), WriteOptions())
    assert of_text.write("[1, 2.5]") == "X'0000803f00002040'"
    for wrong in ("1'; drop", "7", '["a"]', "[1, null]"):
        with pytest.raises(DataError, match=r"Field v: .* is not a vector; expected numbers in brackets"):
            of_text.write(wrong)


def test_the_longitude_of_a_point_comes_first_in_either_byte_order() -> None:
    row = ("g", b"geometry", b"geometry", "YES", None, "", None, None, None, None)
    builder = SchemaBuilder.struct().name("io.debezium.data.geometry.Geometry").field("wkb", Schema.BYTES)
    schema = builder.field("srid", Schema.OPTIONAL_INT32).build()
    write = literal_for(SinkField("g", schema), _column(row), WriteOptions()).write
    little, big = b"\1" + struct.pack("<Idd", 1, 11, 48), b"\0" + struct.pack(">Idd", 1, 11, 48)
    assert write(Struct(schema, [little, 4326])) == f"X'e6100000{little.hex()}'"
    # What MySQL 8.0.15 and 9.7 make of both is POINT(48 11), and of the second without the option POINT(11 48).
    expected = f"ST_GeomFromWKB(X'{big.hex()}', 4326 /*!80013 , 'axis-order=long-lat' */)"
    assert write(Struct(schema, [big, 4326])) == expected


@pytest.mark.parametrize(("keys", "type"), [(1, "VARCHAR(255)"), (3, "VARCHAR(255)"), (4, "VARCHAR(192)")])
def test_text_keys_fit_into_an_index(keys: int, type: str) -> None:
    assert column_type(SinkField("k", Schema.STRING, is_key=True), keys).startswith(type)
    assert column_type(SinkField("k", Schema.BYTES, is_key=True), keys) == "VARBINARY(255)"
