"""Change events of each kind, from a real MariaDB."""

from __future__ import annotations

from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support.source_runner import shown


def test_insert_update_delete_and_tombstone(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, name varchar(20))")
    source.begin()
    source.sql("insert into t values (1, 'a')", "update t set name = 'b'", "delete from t")
    records = source.read(4)
    assert [shown(r) for r in records] == [
        ("t", "c", None, {"id": 1, "name": "a"}),
        ("t", "u", {"id": 1, "name": "a"}, {"id": 1, "name": "b"}),
        ("t", "d", {"id": 1, "name": "b"}, None),
        ("t", "tombstone", {"id": 1}),
    ]
    created = records[0]
    assert created.topic == f"shop.{source.database}.t"
    assert created.key.as_dict() == {"id": 1}
    assert created.value_schema is not None
    assert created.value_schema.name == f"shop.{source.database}.t.Envelope"
    assert created.value_schema.field_names == ("before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns")
    block = created.value["source"].as_dict()
    assert created.value["source"].schema.name == "io.debezium.connector.mariadb.Source"
    assert list(block) == [
        "version", "connector", "name", "ts_ms", "snapshot", "db", "sequence", "ts_us", "ts_ns", "table", "server_id", "gtid",
        "file", "pos", "row", "thread", "query",
    ]  # fmt: skip
    assert (block["connector"], block["name"], block["db"], block["table"]) == ("mariadb", "shop", source.database, "t")
    assert (block["snapshot"], block["row"], block["server_id"]) == ("false", 0, 1)
    for record in records[:3]:
        record.value.validate()
