"""What becomes of tables whose columns change."""

from __future__ import annotations

import re
from typing import Any

import pytest

from connect.config.schema_contracts import FrozenSchemaError
from connect.errors import BadRequestError, ConnectError, DataError
from connectors.postgres import PostgresSource


@pytest.fixture
def table(source: Any) -> Any:
    with source.sql() as db:
        db.execute("create table t(id int primary key, name text, price numeric(6,2)); insert into t values (1, 'a', 1)")
        yield db


def poll_until_frozen(source: Any) -> str:
    with pytest.raises(FrozenSchemaError) as raised:
        source.idle_until(lambda: False, "an error")
    return raised.value.message


def fields(record: Any) -> list[str]:
    return [field.name for field in record.value["after"].schema.fields]


def test_freeze_fails_at_the_first_row_of_another_version(source: Any, table: Any) -> None:
    """Rows before it are delivered, nothing behind it is confirmed, and it can be accepted."""
    source.start(schema_contract="freeze")
    source.until("streaming")
    with table.transaction():
        table.execute("insert into t values (2, 'b', 2)")
        table.execute("alter table t add note text, drop name, alter price type numeric(8,2)")
        table.execute("insert into t values (3, 3, 'new')")
    records = source.read_before_failure(1)
    assert [r.key["id"] for r in records] == [2]
    message = poll_until_frozen(source)
    assert "table public.t has changed, but its schema contract is freeze: column name text is missing; " in message
    assert "column note text is new; column price is numeric(8,2), not numeric(6,2); to accept this version, add " in message
    source.store(records[-1])
    for _ in range(2):
        source.kill()
        source.start()
        assert poll_until_frozen(source) == message
    version = re.search(r"public\.t@[0-9a-f]{8}", message)
    assert version is not None
    source.kill()
    source.start(schema_contract_accepted=f"public.other@00000000,{version[0]}")
    records = source.read(1)
    assert [(r.key["id"], fields(r)) for r in records] == [(3, ["id", "price", "note"])]
    source.store(records[-1])
    source.kill()
    source.start(schema_contract_accepted="")
    table.execute("insert into t values (4, 4, 'accepted')")
    assert [r.key["id"] for r in source.read(1)] == [4]


def test_a_change_while_the_task_is_stopped_is_found(source: Any, table: Any) -> None:
    source.start(schema_contract="freeze")
    source.store(source.until("streaming")[-1])
    source.kill()
    table.execute("insert into t values (2, 'b', 2); alter table t rename name to title; insert into t values (3, 'c', 3)")
    source.start()
    assert [r.key["id"] for r in source.read_before_failure(1)] == [2]
    assert "column name text is missing; column title text is new" in poll_until_frozen(source)


@pytest.mark.long
def test_changes_that_are_read_again_after_a_restart_do_not_count(source: Any, table: Any) -> None:
    """An accepted version stays accepted although the server sends rows of the older one again."""
    source.start(schema_contract="freeze", schema_contract_overrides=r"public\.t:evolve")
    source.until("streaming")
    with table.transaction():
        table.execute("insert into t values (2, 'b', 2)")
        table.execute("alter table t add note text")
        table.execute("insert into t values (3, 'c', 3, 'n')")
        table.execute("insert into t values (4, 'd', 4, 'n')")
    records = source.read(3)
    source.store(records[1])
    source.kill()
    source.start(schema_contract_overrides="")
    assert [r.key["id"] for r in source.read(1)] == [4]


@pytest.mark.long
def test_an_accepted_version_is_stored_with_its_first_row(source: Any, table: Any) -> None:
    """Not with rows before it that are stored after it was read."""
    source.start(schema_contract="freeze")
    source.store(source.until("streaming")[-1])
    table.execute("insert into t values (2, 'b', 2), (3, 'c', 3)")
    table.execute("alter table t add note text; insert into t values (4, 'd', 4, 'n')")
    source.read_before_failure(2)
    version = re.search(r"public\.t@[0-9a-f]{8}", poll_until_frozen(source))
    assert version is not None
    source.kill()
    source.start(schema_contract_accepted=version[0])
    records = source.read(3)
    source.store(records[0])
    source.kill()
    source.start()
    assert [r.key["id"] for r in source.read(2)] == [3, 4]


def test_contracts_of_an_altered_offset_are_checked(source: Any, table: Any) -> None:
    source.start(schema_contract="freeze")
    source.store(source.until("streaming")[-1])
    source.kill()
    wrong = {**source.offsets.stored, "schema_contracts": "{public.t"}
    with pytest.raises(BadRequestError, match="schema_contracts of the stored offset is no JSON object"):
        PostgresSource().alter_offsets(source.config, {(("server", "shop"),): wrong})
    source.offsets.stored = wrong
    with pytest.raises(ConnectError, match="schema_contracts of the stored offset is no JSON object"):
        source.start()


def test_other_columns_can_be_left_out(source: Any, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    source.start(schema_contract="evolve", schema_contract_overrides=r"public\.t\.(secret|price):drop_column")
    source.until("streaming")
    table.execute("alter table t add note text, add secret text, alter price type numeric(8,2)")
    table.execute("insert into t values (2, 'b', 2, 'n', 'x')")
    records = source.read(1)
    assert fields(records[0]) == ["id", "name", "note"]
    assert "column price is numeric(8,2), not numeric(6,2); column secret text is new" in caplog.text
    source.store(records[-1])
    source.kill()
    table.execute("alter table t alter price type numeric(6,2); insert into t values (3, 'c', 3, 'n', 'x')")
    source.start()
    assert fields(source.read(1)[0]) == ["id", "name", "price", "note"]


def test_a_key_column_is_not_left_out(source: Any, table: Any) -> None:
    source.start(schema_contract="drop_column")
    source.until("streaming")
    table.execute("alter table t alter id type bigint; insert into t values (2, 'b', 2)")
    assert "column id is int8, not int4 and part of the key" in poll_until_frozen(source)


def test_rows_of_another_version_can_go_to_the_dead_letter_queue(source: Any, table: Any) -> None:
    source.start(schema_contract="dead_letter_queue")
    source.until("streaming")
    table.execute("alter table t add note text; insert into t values (2, 'b', 2, 'n'); update t set note = 'm' where id = 2")
    table.execute("alter table t drop note; insert into t values (3, 'c', 3)")
    errant = source.read(3)
    named = r"table public\.t with the key \(id=2\) .*dead_letter_queue: column note text is new; to accept"
    for record in errant[:2]:
        with pytest.raises(DataError, match=named):
            assert record.value
    assert errant[0].texts == {"table": "public.t", "row": {"id": "2", "name": "b", "price": "2.00", "note": "n"}}
    assert [r.key["id"] for r in errant[2:]] == [3]


def test_snapshots_obey_contracts(source: Any, table: Any) -> None:
    source.start(schema_contract="freeze")
    source.store(source.until("streaming")[-1])
    source.kill()
    table.execute("alter table t add note text")
    source.start(snapshot_mode="always")
    assert "column note text is new" in poll_until_frozen(source)
    source.kill()
    source.start(schema_contract="dead_letter_queue")
    (errant, *_) = source.until("streaming")
    with pytest.raises(DataError, match=r"with the key \(id=1\) .*column note text is new"):
        assert errant.value
    source.kill()
    source.start(schema_contract="drop_column")
    assert fields(source.until("streaming")[0]) == ["id", "name", "price"]


@pytest.mark.long
def test_a_table_without_changes_is_not_disturbed(source: Any, table: Any) -> None:
    """Defaults, NOT NULL, and columns that are not captured are no part of a contract."""
    source.start(schema_contract="freeze", column_exclude_list=r"public\.t\.hidden")
    source.store(source.until("streaming")[-1])
    table.execute("alter table t add hidden text, alter name set default 'd', alter name set not null")
    table.execute("insert into t values (2, 'b', 2); create table other(id int primary key); insert into other values (1)")
    records = source.read(2)
    assert [(r.topic, r.key["id"]) for r in records] == [("shop.public.t", 2), ("shop.public.other", 1)]
    assert source.offsets.stored["schema_contracts"] == '{"public.t":{"id":"int4","name":"text","price":"numeric(6,2)"}}'
