"""Values that a post-processor reads from the table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from connect.config.definition import ConfigValue
from connect.errors import ConfigError, ConnectError
from connectors.postgres import PostgresSource

_TYPE = "io.debezium.processors.reselect.ReselectColumnsPostProcessor"
_BIG = "select string_agg(md5(i::text), '') from generate_series(1, {}) i"


@pytest.fixture
def table(source: Any) -> Iterator[Any]:
    """A table with TOASTed values."""
    source.config.update({"post.processors": "again", "post.processors.again.type": _TYPE, "snapshot.mode": "never"})
    with source.sql() as db:
        db.execute("create table t(id int primary key, other int unique, big text, doc jsonb, note text)")
        db.execute("alter table t alter big set storage external, alter doc set storage external")
        source.start()
        source.until("streaming")
        yield db


def insert(db: Any, number: int) -> None:
    db.execute(f"insert into t select {number}, -{number}, ({_BIG.format(500)}), to_jsonb(({_BIG.format(400)})), 'a'")


def after(record: Any) -> dict[str, Any]:
    return dict(record.value["after"].as_dict())


def test_unavailable_values_and_nulls_are_read_from_the_table(source: Any, table: Any) -> None:
    insert(table, 1)
    table.execute("update t set note = 'b'")
    created, updated = source.read(2)
    assert len(after(created)["big"]) == 16_000
    assert after(updated) == {**after(created), "note": "b"}
    with table.transaction():
        table.execute("update t set note = null")
        table.execute("update t set note = 'later'")
    assert [after(r)["note"] for r in source.read(2)] == ["later", "later"]


def test_columns_are_selected(source: Any, table: Any) -> None:
    """Patterns are those of schema.table:column, and the older prefix of keys works."""
    source.kill()
    del source.config["post.processors.again.type"]
    source.config.update({"again.type": _TYPE, "again.reselect.columns.include.list": r"public\.t:(big|note)"})
    source.config["again.reselect.null.values"] = "false"
    source.start()
    source.until("streaming")
    insert(table, 1)
    table.execute("update t set note = null")
    table.execute("update t set note = 'c'")
    created, updated, _ = source.read(3)
    assert after(updated)["big"] == after(created)["big"]
    assert after(updated)["doc"] == "__debezium_unavailable_value"
    assert after(updated)["note"] is None


def test_a_complete_old_row_needs_no_query(source: Any, table: Any) -> None:
    table.execute("alter table t replica identity full")
    insert(table, 1)
    table.execute("update t set note = 'b', other = other - 1; delete from t")
    created, updated, *_ = source.read(4)
    assert after(updated) == {**after(created), "note": "b", "other": -2}


def test_a_row_that_is_gone_is_named(source: Any, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    insert(table, 1)
    source.store(source.read(1)[0])
    with table.transaction():
        table.execute("update t set note = 'b'")
        table.execute("delete from t")
    assert after(source.read(3)[0])["big"] == "__debezium_unavailable_value"
    assert "table public.t has no row with id=1 any more" in caplog.text
    source.kill()
    source.config["post.processors.again.reselect.error.handling.mode"] = "fail"
    source.start()
    with pytest.raises(ConnectError, match=r"no row with id=1 any more.*reselect\.error\.handling\.mode=fail"):
        source.read(1)


def test_rows_can_be_found_by_the_record_key(source: Any, table: Any) -> None:
    source.kill()
    table.execute("alter table t replica identity full")
    source.config["post.processors.again.reselect.use.event.key"] = "true"
    source.start(message_key_columns="public.t:other")
    source.until("streaming")
    with table.transaction():
        table.execute("insert into t values (1, -1)")
        table.execute("update t set note = 'set later', id = 2")
    assert [after(r)["note"] for r in source.read(2)] == ["set later", "set later"]


@pytest.mark.parametrize(
    ("changes", "key", "message"),
    [
        ({"post.processors.again.type": None}, "post.processors", "set post.processors.again.type="),
        ({"post.processors.again.type": "com.acme.Mine"}, "post.processors.again.type", "must be one of"),
        ({"post.processors": "a,b"}, "post.processors", "there is only one kind of post-processor"),
        ({"post.processors.again.reselect.nulls": "x"}, "post.processors.again.reselect.nulls", "has no such key"),
        ({"post.processors.again.reselect.null.values": "x"}, "post.processors.again.reselect.null.values", "true or false"),
    ],
)
def test_wrong_keys_are_named(source: Any, changes: dict[str, str | None], key: str, message: str) -> None:
    config = {**source.config, "post.processors": "again", "post.processors.again.type": _TYPE, **changes}
    config = {name: value for name, value in config.items() if value is not None}
    wrong: dict[str, ConfigValue] = {value.name: value for value in PostgresSource().check_config(config) if value.errors}
    assert list(wrong) == [key]
    assert message in wrong[key].errors[0]
    with pytest.raises(ConfigError):
        PostgresSource().start(config)
