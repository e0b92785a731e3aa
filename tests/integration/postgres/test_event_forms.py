"""The form of events: masks, types and names in schemas; the same in the snapshot and in the stream."""

from __future__ import annotations

from typing import Any


def test_masked_columns_are_the_same_in_snapshot_and_stream_and_keys_keep_their_values(source: Any) -> None:
    with source.sql() as db:
        db.execute('create table t (email varchar(30) primary key, name text, "e-mail" varchar(8), note text, n numeric(6,2))')
        db.execute("insert into t select 'a' || i, 'x', 'hello', 'long note', i from generate_series(1, 4) i")
        source.start(
            **{
                "column_mask_with_3_chars": r"public\.t\.(email|name)",
                "column_mask_hash_SHA-256_with_salt_CzQMA0cB5K": r".*\.e-mail",
                "column_truncate_to_4_chars": r".*\.note",
                "datatype_propagate_source_type": r".*\.numeric",
                "field_name_adjustment_mode": "avro",
                "schema_name_adjustment_mode": "avro",
                "topic_prefix": "my-shop",
            }
        )
        found = source.read(4)
        source.until("streaming")
        db.execute("insert into t values ('a9', null, 'hello', 'long note', 9)")
        db.execute("update t set email = 'b9' where email = 'a9'")
        db.execute("delete from t where email = 'b9'")
        found += source.read(6)
    after = {"email": "***", "name": "***", "e_mail": "b4d39ab0", "note": "long"}
    keys = [record.key.as_dict() for record in found]
    assert keys == [{"email": key} for key in ("a1", "a2", "a3", "a4", "a9", "a9", "a9", "b9", "b9", "b9")]
    for record in found[:5]:
        row = record.value.as_dict()["after"]
        row.pop("n")
        assert row == after
        assert record.value_schema.name == "my_shop.public.t.Envelope"
        assert record.topic == "my-shop.public.t"
        parameters = {f.name: f.schema.parameters for f in record.value_schema.field("after").schema.fields}
        assert parameters["email"] == {"masked": "true"}
        assert parameters["note"] == {"truncateLength": "4"}
        assert parameters["n"]["__debezium.source.column.length"] == "6"
        assert parameters["n"]["__debezium.source.column.type"] == "NUMERIC"
    assert found[5].value.as_dict()["before"]["email"] == "***"


def test_logical_messages_are_events_and_no_row_behind_them_is_lost(source: Any) -> None:
    def names(records: list[Any]) -> list[Any]:
        return [r.value["message"]["content"] if r.topic == "shop.message" else r.value["after"]["id"] for r in records]

    emit = "select pg_logical_emit_message({}, '{}', '{}')"
    with source.sql() as db:
        db.execute("create table t (id int primary key)")
        source.start(snapshot_mode="never", message_prefix_include_list="a.*,b", binary_handling_mode="hex")
        source.until("streaming")
        with db.transaction():
            db.execute("insert into t values (1)")
            db.execute(emit.format("true", "abc", "in"))
            db.execute(emit.format("true", "other", "skipped"))
            db.execute("insert into t values (2)")
        db.execute(emit.format("false", "B", "one"))
        db.execute(emit.format("false", "b", "two"))
        db.execute("insert into t values (3)")
        everything = source.read(6)
        expected = [1, b"in".hex(), 2, b"one".hex(), b"two".hex(), 3]
        assert names(everything) == expected
        for record in everything:
            record.value.validate()
        source_blocks = [record.value["source"].as_dict() for record in everything]
        assert [block["txId"] is None for block in source_blocks] == [False] * 3 + [True] * 2 + [False]
        for done in (1, 2, 4):
            source.kill()
            source.offsets.stored = dict(everything[done].source_offset)
            source.wait_for_slot(db)
            source.start()
            again = source.read(5 - done)
            assert names(again) == expected[done + 1 :]
            # Commit position and place are the same after a restart.
            assert [r.value["source"]["lsn"] for r in again] == [block["lsn"] for block in source_blocks[done + 1 :]]
            assert [r.source_offset["tx_events"] for r in again] == [r.source_offset["tx_events"] for r in everything[done + 1 :]]


def test_transactions_have_metadata_that_is_the_same_after_a_restart(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t (id int primary key); create table u (id int primary key)")
        source.start(snapshot_mode="never", provide_transaction_metadata="true")
        source.until("streaming")
        db.execute("insert into u values (0)")
        source.read(3)  # source.sequence of the first transaction of a slot has no predecessor
        with db.transaction():
            db.execute("insert into t values (1), (2)")
            db.execute("insert into u values (1)")
            db.execute("delete from t where id = 1")
            db.execute("update t set id = 3 where id = 2")
        db.execute("insert into u values (2)")
        everything = source.read(12)
        topics = [record.topic.removeprefix("shop.") for record in everything]
        one = ["transaction", "public.t", "public.t", "public.u", *["public.t"] * 5, "transaction"]
        assert topics == [*one, "transaction", "public.u", "transaction"]
        begin, *events, end = (record for record in everything[:10] if record.value is not None)
        xid = events[0].value["source"]["txId"]
        assert begin.value["status"] == "BEGIN"
        assert begin.key["id"].startswith(f"{xid}:")
        assert begin.value["event_count"] is None
        blocks = [event.value["transaction"].as_dict() for event in events]
        assert [(b["total_order"], b["data_collection_order"]) for b in blocks] == [
            (1, 1),
            (2, 2),
            (3, 1),
            (4, 3),
            (5, 4),
            (6, 5),
        ]
        assert [b["id"] for b in blocks] == [f"{xid}:{event.value['source']['lsn']}" for event in events]
        counts = {c["data_collection"]: c["event_count"] for c in (s.as_dict() for s in end.value["data_collections"])}
        assert (end.value["status"], end.value["event_count"], counts) == ("END", 6, {"public.t": 5, "public.u": 1})
        for record in everything:
            if record.value is not None:
                record.value.validate()

        def shown(record: Any) -> Any:
            value = record.value
            if value is None:
                return None
            if record.topic == "shop.transaction":
                return value.as_dict()
            return value["op"], value["transaction"].as_dict(), value["source"]["lsn"], value["source"]["sequence"]

        for done in (0, 2, 8, 9):
            source.kill()
            source.offsets.stored = dict(everything[done].source_offset)
            source.wait_for_slot(db)
            source.start()
            again = source.read(12 - done)
            assert [shown(r) for r in again] == [shown(r) for r in everything[done + 1 :]]
