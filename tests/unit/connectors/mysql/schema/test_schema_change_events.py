"""Schema change events: Debezium's schemas and values."""

from __future__ import annotations

from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connectors.mysql.schema.ddl import TableDdlChange, apply
from connectors.mysql.schema.model import MySqlTable, TableId
from connectors.mysql.schema.schema_change_events import SchemaChangeEvents

_SOURCE = SchemaBuilder.struct().name("io.debezium.connector.mysql.Source").field("db", Schema.STRING).build()


def changes(*statements: str) -> list[TableDdlChange]:
    tables: dict[TableId, MySqlTable] = {}
    found = []
    for statement in statements:
        for change in apply(tables, statement, "d"):
            assert isinstance(change, TableDdlChange)
            found.append(change)
            if change.table is not None:
                tables[change.id] = change.table
    return found


def test_schemas_have_debeziums_names_versions_and_fields() -> None:
    events = SchemaChangeEvents("mariadb", _SOURCE)
    assert (events.key_schema.name, events.value_schema.name) == (
        "io.debezium.connector.mariadb.SchemaChangeKey",
        "io.debezium.connector.mariadb.SchemaChangeValue",
    )
    assert events.key_schema.version == events.value_schema.version == 1
    fields = events.value_schema.fields
    assert fields is not None
    assert [field.name for field in fields] == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    change = fields[5].schema.value_schema
    assert change is not None
    assert change.name == "io.debezium.connector.schema.Change"
    assert change.fields is not None
    table = change.fields[2].schema
    assert (table.name, table.optional) == ("io.debezium.connector.schema.Table", True)
    assert SchemaChangeEvents("mysql", _SOURCE, adjust=lambda name: name.replace(".", "_")).key_schema.name == (
        "io_debezium_connector_mysql_SchemaChangeKey"
    )


def test_values_have_the_tables_structure() -> None:
    events = SchemaChangeEvents("mysql", _SOURCE, include_comments=True)
    ddl = "CREATE TABLE t (id INT PRIMARY KEY, p DECIMAL(5,2) DEFAULT 1.5 COMMENT 'x', e SET('a','b')) CHARSET=latin1 COMMENT 'c'"
    source = Struct(_SOURCE, ["d"])
    value = events.value(source, "d", ddl, changes(ddl), ts_ms=7)
    assert value.values[:5] == [source, 7, "d", None, ddl]
    (change,) = value.values[5]
    assert (change.get("type"), change.get("id")) == ("CREATE", '"d"."t"')
    table = change.get("table")
    assert table.values[:2] == ["latin1", ["id"]]
    assert table.get("comment") == "c"
    assert [column.values for column in table.get("columns")] == [
        ["id", 4, None, "INT", "INT", None, None, None, 1, False, False, False, None, None, None],
        ["p", 3, None, "DECIMAL", "DECIMAL", None, 5, 2, 2, True, False, False, "x", "1.5", None],
        ["e", 1, None, "SET", "SET", "latin1", 3, None, 3, True, False, False, None, None, ["'a'", "'b'"]],
    ]
    assert events.key("d").values == ["d"]


def test_drop_has_no_table_and_statements_without_tables_have_no_changes() -> None:
    events = SchemaChangeEvents("mysql", _SOURCE)
    source = Struct(_SOURCE, ["d"])
    (dropped,) = events.value(source, "d", "DROP TABLE t", changes("DROP TABLE t"), ts_ms=1).values[5]
    assert dropped.values == ["DROP", '"d"."t"', None]
    assert events.value(source, None, "SET x=1", [], ts_ms=1).values[2:] == ["", None, "SET x=1", []]
    assert events.key(None).values == [""]
    assert changes("DROP TABLE t")[0].id == TableId("d", "t")
