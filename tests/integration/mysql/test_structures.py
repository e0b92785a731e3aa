"""The structure of tables follows the log, and what the log does not say is found out or refused by name."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from connect.errors import DataError
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.support.source_runner import shown


def _alter_silently(source: MariaDbRunningSource, *statements: str) -> None:
    """Runs DDL that the log does not have."""
    source.sql("set session sql_log_bin = 0", *statements)


@pytest.fixture
def full_metadata(source: MariaDbRunningSource) -> Iterator[None]:
    """The log names columns."""
    source.sql("set global binlog_row_metadata = 'FULL'")
    yield
    source.sql("set global binlog_row_metadata = 'NO_LOG'")


def test_structure_without_ddl_is_refused_by_name(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    _alter_silently(source, "alter table t add n int")
    source.sql("insert into t values (1, 2)")
    with pytest.raises(DataError, match=rf"{source.database}\.t.* has 1 columns; the binary log has 2.*snapshot\.mode=recovery"):
        source.read(1)


@pytest.mark.parametrize("mode", ["warn", "skip"])
def test_changes_of_an_unknown_structure_are_skipped_if_the_mode_says_so(
    source: MariaDbRunningSource, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    source.sql("create table t(id int primary key)", "create table u(id int primary key)")
    source.begin(inconsistent_schema_handling_mode=mode)
    _alter_silently(source, "alter table t add n int")
    with caplog.at_level(logging.WARNING):
        source.sql("insert into t values (1, 2)", "insert into u values (3)")
        assert [shown(r)[:1] + shown(r)[3:] for r in source.read(1)] == [("u", {"id": 3})]
    assert ("skipping changes of table" in caplog.text) is (mode == "warn")


@pytest.mark.usefixtures("full_metadata")
def test_log_with_names_settles_an_unknown_structure(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, gone varchar(10))")
    source.begin()
    _alter_silently(source, "alter table t drop gone, add n int default 7, add e enum('a','b')")
    source.sql("insert into t values (1, 2, 'b')")
    (record,) = source.read(1)
    assert shown(record) == ("t", "c", None, {"id": 1, "n": 2, "e": "b"})
    assert record.value_schema is not None
    after = record.value["after"].schema
    assert after.field("n").schema.default == 7, "the server knows the default"
    source.store(record)
    source.kill()
    source.sql("insert into t values (2, 3, 'a')")
    source.start()
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 2, "n": 3, "e": "a"}], "the structure is in the history"


@pytest.mark.usefixtures("full_metadata")
def test_log_with_names_settles_a_table_that_was_dropped_meanwhile(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    _alter_silently(source, "create table u(id int primary key, name varchar(20) character set latin1, n bigint unsigned)")
    source.sql("insert into u values (1, 'é', 5)")
    _alter_silently(source, "drop table u")
    (record,) = source.read(1)
    assert shown(record) == ("u", "c", None, {"id": 1, "name": "é", "n": 5})
    assert record.key.as_dict() == {"id": 1}


def test_tables_of_a_select_have_their_rows(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, name varchar(10))", "insert into t values (1, 'a'), (2, 'b')")
    source.begin()
    source.sql("create table copy (primary key (id)) select id, name from t", "create table empty like t")
    source.sql("insert into empty values (9, 'z')", "rename table copy to moved", "update moved set name = 'x' where id = 2")
    records = source.read(4)
    assert [shown(r)[:2] + shown(r)[3:] for r in records] == [
        ("copy", "c", {"id": 1, "name": "a"}),
        ("copy", "c", {"id": 2, "name": "b"}),
        ("empty", "c", {"id": 9, "name": "z"}),
        ("moved", "u", {"id": 2, "name": "x"}),
    ]


def test_columns_that_the_log_omits_are_placeholders_or_the_old_value(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key, n int, body text, data blob)", "insert into t values (1, 1, 'long', 'abc')")
    source.begin()
    source.sql("set session binlog_row_image = 'NOBLOB'", "update t set n = 2", "update t set body = 'new'", "delete from t")
    one, two, deleted, tombstone = source.read(4)
    placeholder = "__debezium_unavailable_value"
    before = {"id": 1, "n": 1, "body": placeholder, "data": placeholder.encode()}
    assert shown(one)[2:] == (before, {**before, "n": 2})
    assert shown(two)[3] == {"id": 1, "n": 2, "body": "new", "data": placeholder.encode()}
    assert (shown(deleted)[1], tombstone.value) == ("d", None)


def test_table_that_is_altered_within_one_batch_has_both_schemas(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    for number in range(5):
        source.sql(f"insert into t (id) values ({number})", f"alter table t add c{number} int")
    records = source.read(5)
    assert [sorted(shown(r)[3]) for r in records] == [sorted(["id", *(f"c{i}" for i in range(n))]) for n in range(5)]
    schemas = [r.value_schema for r in records]
    assert len({id(schema) for schema in schemas}) == 5


def test_character_set_of_a_database_is_known_after_a_restart(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(schema_history_internal_store_only_captured_tables_ddl="true")
    source.sql(f"alter database `{source.database}` character set latin1", "insert into t values (1)")
    (record,) = source.read(1)
    source.store(record)
    source.kill()
    source.sql("create table u(id int primary key, name varchar(10))", "insert into u values (1, 'é')")
    source.start()
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 1, "name": "é"}]


def test_debeziums_offset_behind_a_statement_does_not_repeat_it(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin(include_schema_changes="true")
    file, position, *_ = source.sql("show master status")[0]
    ((gtids,),) = source.sql("select @@gtid_binlog_pos")
    source.sql("alter table t add n int")
    (record,) = [r for r in source.read(1) if r.topic == "shop"][-1:]
    assert record.source_offset is not None
    # As Debezium has it: the transaction of the statement, of which one event is completed.
    offset = {**record.source_offset, "gtids": gtids, "file": file, "pos": position, "event": 1}
    record.source_offset = offset
    source.store(record)
    source.kill()
    *others, last = source.history.read_text().splitlines()
    source.history.write_text("\n".join([*others, json.dumps({**json.loads(last), "position": offset}), ""]))
    source.start()
    source.sql("insert into t values (1, 2)")
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 1, "n": 2}]


def test_statements_that_concern_no_table_are_passed(source: MariaDbRunningSource) -> None:
    source.sql("create table t(id int primary key)")
    source.begin()
    source.sql("create view v as select * from t", "create trigger tr before insert on t for each row set new.id = new.id + 1")
    source.sql("create procedure p() insert into t values (5)", "call p()", "drop procedure p", "drop view v")
    source.sql(
        "create user if not exists nobody@localhost", "grant select on *.* to nobody@localhost", "drop user nobody@localhost"
    )
    source.sql("analyze table t", "create sequence s", "drop sequence s", "create index i on t(id)", "flush tables")
    assert [shown(r)[3] for r in source.read(1)] == [{"id": 6}]
