"""History records: Debezium's JSON, member by member, and back."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError
from connectors.mysql.schema.ddl import DdlContext, TableDdlChange, apply, parse_create_table
from connectors.mysql.schema.history.records import (
    HistoryRecord,
    StoredChange,
    decode_record,
    encode_record,
    format_table_id,
    parse_table_id,
    stored_changes,
)
from connectors.mysql.schema.model import MySqlTable, TableId

_DDL = r"CREATE TABLE t (id INT(11) NOT NULL AUTO_INCREMENT, e ENUM('a','it''s') DEFAULT 'it''s', PRIMARY KEY (id)) COMMENT 'c'"
_POSITION = {"file": "mysql-bin.000003", "pos": 154, "snapshot": True}


def table(ddl: str = _DDL) -> MySqlTable:
    return parse_create_table(ddl, "d", DdlContext(server_charset="latin1"))


def record(*changes: StoredChange) -> HistoryRecord:
    return HistoryRecord({"server": "shop"}, _POSITION, 1700000000000, "d", _DDL, changes)


def test_record_has_debeziums_members_in_its_order() -> None:
    data = encode_record(record(StoredChange("CREATE", TableId("d", "t"), table())))
    assert data.decode() == (
        '{"source":{"server":"shop"},"position":{"file":"mysql-bin.000003","pos":154,"snapshot":true},"ts_ms":1700000000000,'
        '"databaseName":"d","ddl":"CREATE TABLE t (id INT(11) NOT NULL AUTO_INCREMENT, e ENUM(\'a\',\'it\'\'s\') DEFAULT '
        "'it''s', PRIMARY KEY (id)) COMMENT 'c'\","
        '"tableChanges":[{"type":"CREATE","id":"\\"d\\".\\"t\\"","table":{"defaultCharsetName":"latin1",'
        '"primaryKeyColumnNames":["id"],"columns":['
        '{"name":"id","jdbcType":4,"typeName":"INT","typeExpression":"INT","charsetName":null,"length":11,"position":1,'
        '"optional":false,"autoIncremented":true,"generated":true,"comment":null,"hasDefaultValue":false,"enumValues":[]},'
        '{"name":"e","jdbcType":1,"typeName":"ENUM","typeExpression":"ENUM","charsetName":"latin1","length":1,"position":2,'
        '"optional":true,"autoIncremented":false,"generated":false,"comment":null,"hasDefaultValue":true,'
        '"defaultValueExpression":"it\'\'s","enumValues":["\'a\'","\'it\'\'s\'"]}],'
        '"attributes":[]},"comment":null}]}'
    )


def test_comments_are_stored_on_request() -> None:
    change = StoredChange("CREATE", TableId("d", "t"), table("CREATE TABLE t (a INT COMMENT 'x') COMMENT 'c'"))
    decoded = decode_record(encode_record(record(change), include_comments=True))
    assert decoded is not None
    assert decoded.changes is not None
    found = decoded.changes[0].table
    assert found is not None
    assert (found.comment, found.columns[0].comment) == ("c", "x")


def test_rename_drop_and_truncate() -> None:
    base = {TableId("d", "t"): table()}
    changes = [
        *apply(base, "RENAME TABLE t TO u", "d"),
        *apply(base, "DROP TABLE v", "d"),
        *apply(base, "TRUNCATE t", "d"),
        *apply(base, "CREATE TABLE w AS SELECT 1", "d"),
    ]
    stored = stored_changes(change for change in changes if isinstance(change, TableDdlChange))
    text = encode_record(record(*stored)).decode()
    assert '{"type":"ALTER","id":"\\"d\\".\\"u\\"","previousId":"\\"d\\".\\"t\\"","table":{' in text
    assert '{"type":"DROP","id":"\\"d\\".\\"v\\""}' in text
    assert len(stored) == 2
    assert decode_record(text) == record(*stored)


def test_indexes_and_system_versioning_are_attributes() -> None:
    columns = "a INT NOT NULL, b INT, c TEXT, PRIMARY KEY (a), UNIQUE u (b), UNIQUE v (c(9))"
    found = table(f"CREATE TABLE t ({columns}) WITH SYSTEM VERSIONING")
    decoded = decode_record(encode_record(record(StoredChange("CREATE", found.id, found))))
    assert decoded is not None
    assert decoded.changes is not None
    assert decoded.changes[0].table is not None
    assert decoded.changes[0].table.indexes == found.indexes
    assert decoded.changes[0].table.has_system_versioning


def test_record_of_debezium_is_read() -> None:
    text = r"""{ "source" : { "server" : "shop" }, "position" : { "transaction_id" : null, "ts_sec" : 1700000000,
      "file" : "b.000001", "pos" : 4, "gtids" : "0-1-7", "server_id" : 1 }, "ts_ms" : 1,
      "databaseName" : "d", "ddl" : "CREATE TABLE `q``t` (...)",
      "tableChanges" : [ { "type" : "CREATE", "id" : "\"d\".\"q`t\"", "table" : { "defaultCharsetName" : "utf8mb4",
      "primaryKeyColumnNames" : [ "id" ], "columns" : [ { "name" : "id", "jdbcType" : -5, "nativeType" : 7,
      "typeName" : "BIGINT UNSIGNED",
      "typeExpression" : "BIGINT UNSIGNED", "charsetName" : null, "position" : 1, "optional" : false, "autoIncremented" : true,
      "generated" : true, "comment" : null, "hasDefaultValue" : false, "enumValues" : [ ] }, { "name" : "s", "jdbcType" : 1,
      "typeName" : "SET", "typeExpression" : "SET", "charsetName" : "utf8mb4", "length" : 3, "position" : 2, "optional" : true,
      "autoIncremented" : false, "generated" : false, "comment" : null, "hasDefaultValue" : true,
      "defaultValueExpression" : "x\\\\y",
      "enumValues" : [ "'x\\\\y'", "\"it's\"" ] } ], "attributes" : [ ] }, "comment" : null } ] }"""
    found = decode_record(text)
    assert found is not None
    assert found.changes is not None
    (change,) = found.changes
    assert change.id == TableId("d", "q`t")
    assert change.table is not None
    id_, values = change.table.columns
    assert (id_.type_name, id_.length, id_.is_auto_incremented, id_.has_default) == ("BIGINT UNSIGNED", None, True, False)
    assert (values.enum_values, values.default) == (("x\\y", "it's"), "x\\y")
    assert change.table.key == ("id",)


@pytest.mark.parametrize("text", ['{"source":{"server":"x"}}', '{"position":{}}', "[]", "7"])
def test_documents_without_source_or_position_are_skipped(text: str) -> None:
    assert decode_record(text) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is no JSON"),
        ('{"source":{},"position":{"pos":4},"tableChanges":[{"type":"FROB","id":"a.b"}]}', "change 'FROB'"),
        ('{"source":{},"position":{"pos":4},"tableChanges":[{"type":"DROP","id":"a"}]}', "no ID of a table"),
        ('{"source":{},"position":{"pos":4},"tableChanges":[{"type":"CREATE","id":"a.b","table":{}}]}', "KeyError 'columns'"),
    ],
)
def test_damaged_records_are_refused(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        decode_record(text)


_NAMES = st.text(st.characters(exclude_categories=("Cs", "Cc", "Zs", "Zl", "Zp")), min_size=1, max_size=12)


@given(_NAMES, _NAMES)
def test_ids_of_tables_round_trip(database: str, name: str) -> None:
    id = TableId(database, name)
    assert parse_table_id(format_table_id(id)) == id


@pytest.mark.parametrize("name", ['"q"', '"q', 'q"', '"', "'q'", "`q`", 'a"b', "a.b", "a b", "é漢"])
def test_ids_with_odd_names_round_trip(name: str) -> None:
    assert parse_table_id(format_table_id(TableId(name, name))) == TableId(name, name)


def test_names_that_debezium_does_not_quote_are_read() -> None:
    assert parse_table_id('"d"."q') == TableId("d", '"q')
    assert parse_table_id('"d".q"') == TableId("d", 'q"')


@settings(max_examples=60)
@given(st.text(max_size=20))
def test_defaults_and_enum_values_round_trip(text: str) -> None:
    literal = "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    found = table(f"CREATE TABLE t (a VARCHAR(99) DEFAULT {literal}, b ENUM('x', {literal}))")
    assert found.columns[0].default == text
    decoded = decode_record(encode_record(record(StoredChange("CREATE", found.id, found))))
    assert decoded is not None
    assert decoded.changes is not None
    assert decoded.changes[0].table == found
