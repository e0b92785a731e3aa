"""Change events of each kind, from a real MariaDB."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from connect.errors import DataError
from connect.record import ErrantSourceRecord, SourceRecord
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


def test_key_change_is_delete_tombstone_create_with_headers(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, name varchar(20) not null)", "insert into t values (1, 'a'), (5, 'e')")
    source.begin()
    source.sql("update t set id = id + 1 where id = 1", "update t set name = 'z' where id = 5")
    deleted, tombstone, created, updated = source.read(4)
    assert shown(deleted) == ("t", "d", {"id": 1, "name": "a"}, None)
    assert shown(tombstone) == ("t", "tombstone", {"id": 1})
    assert shown(created) == ("t", "c", None, {"id": 2, "name": "a"})
    assert shown(updated) == ("t", "u", {"id": 5, "name": "e"}, {"id": 5, "name": "z"})
    assert header(deleted, "__debezium.newkey").as_dict() == {"id": 2}
    assert header(created, "__debezium.oldkey").as_dict() == {"id": 1}
    names = [f"__debezium.context.{name}" for name in ("connectorLogicalName", "taskId", "connectorName", "runId")]
    assert [h.key for h in updated.headers or ()] == names
    assert header(updated, names[2]) == "mariadb"


def header(record: SourceRecord, name: str) -> Any:
    assert record.headers is not None
    found = record.headers.last_with_name(name)
    assert found is not None
    return found.value


def test_skipped_operations_and_tombstones(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(skipped_operations="c", tombstones_on_delete="false")
    source.sql("insert into t values (1)", "truncate t", "insert into t values (2)", "delete from t")
    truncated, deleted = source.read(2)
    assert shown(truncated) == ("t", "t", None, None)
    assert (truncated.key, truncated.value["source"]["table"]) == (None, "t")
    assert shown(deleted) == ("t", "d", {"id": 2}, None)


def test_an_update_is_not_skipped_if_a_mask_hides_the_change_of_its_key(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id varchar(9) primary key, n int)", "insert into t values ('a', 1), ('b', 1)")
    source.begin(skip_messages_without_change="true", column_mask_with_3_chars=rf"{source.database}\.t\.id")
    source.sql("update t set id = concat(id, 'x') where id = 'a'", "delete from t where id = 'b'")
    deleted, tombstone, created, other, _ = source.read(5)
    assert [record.key["id"] for record in (deleted, tombstone, created, other)] == ["a", "a", "ax", "b"]
    assert [shown(record) for record in (deleted, created)] == [
        ("t", "d", {"id": "***", "n": 1}, None),
        ("t", "c", None, {"id": "***", "n": 1}),
    ]


def test_transactions_have_metadata(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "create table u(id int primary key)")
    source.begin(provide_transaction_metadata="true")
    source.sql("start transaction", "insert into t values (1), (2)", "insert into u values (3)", "commit")
    begin, *rows, end = source.read(5)
    assert begin.topic == end.topic == "shop.transaction"
    gtid = rows[0].value["source"]["gtid"]
    assert (begin.value["status"], begin.value["id"]) == ("BEGIN", gtid)
    blocks = [row.value["transaction"].as_dict() for row in rows]
    assert [(b["id"], b["total_order"], b["data_collection_order"]) for b in blocks] == [(gtid, 1, 1), (gtid, 2, 2), (gtid, 3, 1)]
    counts = {c["data_collection"]: c["event_count"] for c in end.value["data_collections"]}
    assert (end.value["status"], end.value["event_count"]) == ("END", 3)
    assert counts == {f"{source.database}.t": 2, f"{source.database}.u": 1}


def test_source_block_has_the_statement(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(include_query="true")
    source.sql("insert into t values (1) /* one */", "insert into t values (2), (3)")
    records = source.read(3)
    assert [r.value["source"]["query"] for r in records] == ["insert into t values (1) /* one */"] + [
        "insert into t values (2), (3)"
    ] * 2
    assert [r.value["source"]["row"] for r in records] == [0, 0, 1]


def test_rows_of_compressed_events_and_of_later_files(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, name varchar(500))")
    source.begin()
    source.sql("set global log_bin_compress = 1")
    try:
        source.sql(
            "insert into t select seq, repeat('x', 500) from seq_1_to_3", "flush binary logs", "delete from t where id = 2"
        )
    finally:
        source.sql("set global log_bin_compress = 0")
    records = source.read(5)
    assert [shown(r)[1] for r in records] == ["c", "c", "c", "d", "tombstone"]
    assert records[0].value["after"]["name"] == "x" * 500
    files = [r.value["source"]["file"] for r in records[:4]]
    assert len(set(files[:3])) == 1
    assert files[3] > files[0]


def test_schema_changes_come_before_the_rows_that_need_them(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(include_schema_changes="true")
    source.sql("insert into t values (1)", "alter table t add name varchar(10) default 'n'", "insert into t values (2, 'b')")
    source.sql("create table u(id int primary key)", "insert into u values (7)", "drop table u")
    records = source.read(6)
    assert [r.topic.removeprefix(f"shop.{source.database}.") for r in records] == ["t", "shop", "t", "shop", "u", "shop"]
    altered, created, dropped = records[1], records[3], records[5]
    assert altered.key.as_dict() == {"databaseName": source.database}
    assert altered.value["ddl"] == "alter table t add name varchar(10) default 'n'"
    (change,) = altered.value["tableChanges"]
    assert (change["type"], change["id"]) == ("ALTER", f'"{source.database}"."t"')
    assert [column["name"] for column in change["table"]["columns"]] == ["id", "name"]
    assert created.value["tableChanges"][0]["type"] == "CREATE"
    assert dropped.value["tableChanges"][0]["type"] == "DROP"
    assert shown(records[2]) == ("t", "c", None, {"id": 2, "name": "b"})
    history = Path(source.config["schema.history.internal.file.filename"]).read_text().splitlines()
    assert any("alter table t add name" in line for line in history)


def test_changes_of_sources_that_are_not_read_are_left_out(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(gtid_source_excludes="7-.*")
    source.sql("insert into t values (1)", "set gtid_domain_id = 7", "insert into t values (2)", "set gtid_domain_id = 0")
    source.sql("insert into t values (3)")
    assert [shown(r)[3] for r in source.read(2)] == [{"id": 1}, {"id": 3}]


def test_masks_and_truncation_apply_to_rows_of_the_log(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, secret varchar(20), note varchar(20))")
    rules = {"column.mask.with.3.chars": ".*secret", "column.truncate.to.2.chars": ".*note"}
    source.config.update(rules)
    source.begin()
    source.sql("insert into t values (1, 'hidden', 'abcdef'), (2, null, null)")
    assert [shown(r)[3] for r in source.read(2)] == [
        {"id": 1, "secret": "***", "note": "ab"},
        {"id": 2, "secret": "***", "note": None},
    ]


def test_heartbeats_advance_the_offset_without_changes(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)", "create table beats(n int)", "insert into beats values (0)")
    source.begin(
        table_include_list=f"{source.database}[.]t",
        heartbeat_interval_ms="100",
        heartbeat_action_query=f"update {source.database}.beats set n = n + 1",
    )
    records = source.read_before_failure(3)
    assert {r.topic for r in records} == {"__debezium-heartbeat.shop"}
    positions = [(r.source_offset["file"], r.source_offset["pos"]) for r in records if r.source_offset]
    assert positions[0] < positions[-1]


@pytest.mark.parametrize("mode", ["fail", "warn"])
def test_rows_that_are_logged_as_statements_are_noticed(source: MariaDbRunningSource, mode: str) -> None:
    source.sql("create table t(id int primary key)", "create table other(id int primary key)")
    source.begin(table_include_list=f"{source.database}[.]t", event_processing_failure_handling_mode=mode)
    source.sql("set session binlog_format = statement", "insert into other values (1)", "insert into t values (1)")
    source.sql("insert into t values (2)")
    if mode == "warn":
        assert [shown(r)[3] for r in source.read(1)] == [{"id": 2}]
        return
    with pytest.raises(DataError, match=rf"change of {source.database}\.t is logged as a statement.*binlog_format=ROW"):
        source.read(1)


def test_row_that_cannot_be_converted_is_reported_and_others_are_emitted(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, n bigint unsigned)")
    source.begin()
    source.sql("insert into t values (1, 1), (2, 18446744073709551615), (3, 3)")
    one, errant, three = source.read(3)
    assert (shown(one)[3], shown(three)[3]) == ({"id": 1, "n": 1}, {"id": 3, "n": 3})
    assert isinstance(errant, ErrantSourceRecord)
    assert f"{source.database}.t with the key (id=2)" in str(errant.error)
    assert errant.source_offset is not None
    assert errant.source_offset["row"] == 2


def test_xa_transactions_are_emitted_when_they_are_prepared(
    source: MariaDbRunningSource, caplog: pytest.LogCaptureFixture
) -> None:
    """As by Debezium: the log has their rows there, and nothing that undoes them. A rollback before that leaves no rows."""
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("xa start 'a'", "insert into t values (1)", "xa end 'a'", "xa rollback 'a'")
    source.sql("xa start 'b'", "insert into t values (2)", "xa end 'b'", "xa commit 'b' one phase")
    with source.server.connect(source.database) as connection, connection.cursor() as cursor:
        for statement in ("xa start 'c'", "insert into t values (3)", "xa end 'c'", "xa prepare 'c'"):
            cursor.execute(statement)
        assert [shown(r)[3] for r in source.read(2)] == [{"id": 2}, {"id": 3}]
        cursor.execute("xa commit 'c'")
    source.sql("insert into t values (4)")
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 4}]
    assert "rolled back" not in caplog.text
    source.sql("xa start 'd'", "insert into t values (5)", "xa end 'd'", "xa prepare 'd'", "xa rollback 'd'")
    source.sql("insert into t values (6)")
    assert [shown(r)[3] for r in source.read(2)] == [{"id": 5}, {"id": 6}]
    assert "a prepared XA transaction was rolled back in" in caplog.text
    assert source.sql("select id from t order by id") == [(2,), (3,), (4,), (6,)]
