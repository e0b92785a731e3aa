"""The schema history: what is stored, where, and what is recovered at a position."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from connect.source import OwnedTopic, OwnedTopicSettings, TopicRecord
from connectors.mysql.config import parse_config
from connectors.mysql.history_keys import FILE, MEMORY, PREFIX, HistorySettings
from connectors.mysql.schema.ddl import (
    DatabaseChange,
    DdlContext,
    DdlKind,
    TableDdlChange,
    UnparsedDdlError,
    apply,
    apply_changes,
)
from connectors.mysql.schema.history.ddl_selection import DdlSelection, compile_ddl_filter
from connectors.mysql.schema.history.history import SchemaHistory, open_store
from connectors.mysql.schema.history.records import HistoryRecord, encode_record
from connectors.mysql.schema.history.store import FileHistoryStore, HistoryStore, MemoryHistoryStore
from connectors.mysql.schema.model import MySqlTable, TableId

_CONTEXT = DdlContext(server_charset="utf8mb4")
_SETTINGS = HistorySettings()


def position(pos: int, **more: Any) -> dict[str, Any]:
    return {"file": "bin.000001", "pos": pos, **more}


def history(store: HistoryStore, settings: HistorySettings = _SETTINGS, server: str = "shop") -> SchemaHistory:
    return SchemaHistory(store, {"server": server}, settings)


def record_all(target: SchemaHistory, *statements: str) -> None:
    tables: dict[TableId, MySqlTable] = {}
    charsets: dict[str, str] = {}
    for i, statement in enumerate(statements, 1):
        changes = apply(tables, statement, "d", _CONTEXT)
        apply_changes(changes, tables, charsets)
        target.record(position(i * 10), "d", statement, changes, ts_ms=i)


def known(target: SchemaHistory, at: dict[str, Any]) -> dict[str, list[str]]:
    tables = target.recover(at, _CONTEXT).tables
    return {str(id): [column.name for column in table.columns] for id, table in sorted(tables.items())}


def test_recovery_replays_records_at_or_before_the_offset() -> None:
    target = history(MemoryHistoryStore())
    record_all(target, "CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT", "RENAME TABLE t TO u", "DROP TABLE u")
    assert known(target, position(5)) == {}
    assert known(target, position(10)) == {"d.t": ["a"]}
    assert known(target, position(29)) == {"d.t": ["a", "b"]}
    assert known(target, position(30)) == {"d.u": ["a", "b"]}
    assert known(target, position(99)) == {}


def test_records_of_another_connector_do_not_count() -> None:
    store = MemoryHistoryStore()
    record_all(history(store, server="other"), "CREATE TABLE t (a INT)")
    assert known(history(store), position(99)) == {}


def test_records_without_tables_are_parsed_again() -> None:
    store = MemoryHistoryStore()
    for pos, database, ddl in (
        (1, "", "CREATE DATABASE x CHARACTER SET latin1"),
        (2, "x", "CREATE TABLE t (a TEXT)"),
        (3, "x", "CREATE TABLE u (a TEXT)"),
        (4, "x", "DROP TABLE u"),
        (5, "x", "CREATE VIEW v AS SELECT 1"),
    ):
        store.append([encode_record(HistoryRecord({"server": "shop"}, position(pos), 1, database, ddl, None if pos % 2 else ()))])
    recovered = history(store).recover(position(9), _CONTEXT)
    assert [str(id) for id in recovered.tables] == ["x.t"]
    assert recovered.tables[TableId("x", "t")].columns[0].charset == "latin1"
    assert (recovered.database_charsets, recovered.record_count) == ({"x": "latin1"}, 5)


def test_unparseable_ddl_fails_the_recovery_unless_it_may_be_skipped() -> None:
    store = MemoryHistoryStore()
    store.append([encode_record(HistoryRecord({"server": "shop"}, position(1), 1, "d", "ALTER TABLE t FROB z", None))])
    record_all(history(store), "CREATE TABLE t (a INT)")
    with pytest.raises(UnparsedDdlError):
        known(history(store), position(99))
    assert known(history(store, HistorySettings(skips_unparseable=True)), position(99)) == {"d.t": ["a"]}


def test_tables_come_from_ddl_if_that_is_preferred() -> None:
    target = history(MemoryHistoryStore(), HistorySettings(prefers_ddl=True))
    tables: dict[TableId, MySqlTable] = {}
    changes = apply(tables, "CREATE TABLE t (a INT)", "d", _CONTEXT)
    target.record(position(1), "d", "CREATE TABLE t (z INT)", changes, ts_ms=1)
    assert known(target, position(1)) == {"d.t": ["z"]}


def test_buffered_records_are_stored_together_or_not_at_all() -> None:
    store = MemoryHistoryStore()
    target = history(store)
    with target.buffered():
        record_all(target, "CREATE TABLE t (a INT)", "CREATE TABLE u (a INT)")
        assert store.records == []
    assert len(store.records) == 2
    with pytest.raises(UnparsedDdlError), target.buffered():
        record_all(target, "CREATE TABLE v (a INT)", "FROB")
    assert len(store.records) == 2


class _FailingStore(MemoryHistoryStore):
    def append(self, records: Sequence[bytes]) -> None:
        raise ConnectError("no space left")


def test_record_fails_if_it_is_not_durable() -> None:
    with pytest.raises(ConnectError, match="no space left"):
        record_all(history(_FailingStore()), "CREATE TABLE t (a INT)")


def test_file_has_one_record_per_line_and_survives_a_partial_one(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "history.dat"
    store = FileHistoryStore(path)
    assert (store.storage_exists(), store.exists(), list(store.read())) == (False, False, [])
    store.initialize()
    assert (store.storage_exists(), store.exists()) == (True, False)
    record_all(history(store), "CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT")
    assert path.read_bytes().count(b"\n") == 2
    with path.open("ab") as file:
        file.write(b'{"source":{"ser')  # a crash
    assert known(history(FileHistoryStore(path)), position(99)) == {"d.t": ["a", "b"]}
    FileHistoryStore(path).append([b"{}"])
    assert path.read_bytes().endswith(b"\n{}\n")
    path.write_bytes(path.read_bytes() + b'{"last":"without newline"}')
    FileHistoryStore(path).append([b"7"])
    assert list(FileHistoryStore(path).read())[2:] == [b"{}", b'{"last":"without newline"}', b"7"]


def test_new_file_is_durable_with_its_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.readlink(f"/proc/self/fd/{handle}")))
    FileHistoryStore(tmp_path / "a" / "b" / "history.dat").append([b"{}"])
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(tmp_path / "a/b/history.dat")} == set(synced)


def test_append_reads_only_the_end_of_the_file(tmp_path: Path) -> None:
    def bytes_read() -> int:
        return int(Path("/proc/self/io").read_text().split()[1])

    path = tmp_path / "history.dat"
    path.write_bytes((b'{"a":"' + b"x" * 1000 + b'"}\n') * 5000 + b'{"b":"' + b"y" * 150_000 + b'"}')
    before = bytes_read()
    FileHistoryStore(path).append([b"{}"])
    assert bytes_read() - before < 1_000_000
    assert path.read_bytes().endswith(b'yyy"}\n{}\n')
    assert sum(1 for _ in FileHistoryStore(path).read()) == 5002


def test_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("a file")
    with pytest.raises(ConnectError, match=r"schema history file .*folder.x cannot be created"):
        FileHistoryStore(tmp_path / "folder" / "x").append([b"{}"])


class _Topic:
    def __init__(self) -> None:
        self.values: list[bytes | None] = []
        self.batches: list[int] = []
        self.configs: Mapping[str, str] | None = None

    def exists(self) -> bool:
        return self.configs is not None

    def create(self, configs: Mapping[str, str]) -> None:
        self.configs = configs

    def is_empty(self) -> bool:
        return not self.values

    def read(self) -> Iterator[TopicRecord]:
        yield from (TopicRecord(i, None, value) for i, value in enumerate(self.values))

    def append(self, values: Sequence[bytes]) -> None:
        self.values += values
        self.batches.append(len(values))

    def close(self) -> None: ...


class _Context:
    def __init__(self) -> None:
        self.opened: list[tuple[str, OwnedTopicSettings]] = []
        self.topic = _Topic()

    def open(self, topic: str, settings: OwnedTopicSettings) -> OwnedTopic:
        self.opened.append((topic, settings))
        return self.topic


_REQUIRED = {
    "topic.prefix": "shop",
    "database.hostname": "db",
    "database.user": "cdc",
    "database.password": "secret-password",
    "database.server.id": "184054",
    f"{PREFIX}kafka.topic": "history",
}


def parsed(**keys: str) -> HistorySettings:
    """The settings of a connector with keys below ``schema.history.internal``, underscores for dots."""
    return parse_config({**_REQUIRED, **{PREFIX + name.replace("_", "."): value for name, value in keys.items()}}).history


def test_topic_is_opened_with_the_settings_of_its_clients() -> None:
    context = _Context()
    settings = parsed(
        kafka_bootstrap_servers="broker:9092",
        name="mine",
        producer_security_protocol="SSL",
        producer_delivery_timeout_ms="5000",
        consumer_security_protocol="PLAINTEXT",
        consumer_key_deserializer="org.apache.kafka.common.serialization.StringDeserializer",
        kafka_recovery_attempts="20",
        kafka_query_timeout_ms="1500",
        kafka_buffer_batch_size="2",
    )
    store = open_store(settings, context.open)
    ((name, opened),) = context.opened
    assert name == "history"
    assert opened.producer == {
        "bootstrap.servers": "broker:9092", "client.id": "mine", "security.protocol": "SSL", "delivery.timeout.ms": "5000",
    }  # fmt: skip
    assert opened.consumer == {
        "bootstrap.servers": "broker:9092", "client.id": "mine", "group.id": "mine", "security.protocol": "PLAINTEXT",
    }  # fmt: skip
    assert opened[2:] == (1.5, 30.0, 2.0, 5.0)
    assert not store.storage_exists()
    store.initialize()
    assert context.topic.configs == {"cleanup.policy": "delete", "retention.ms": "9223372036854775807", "retention.bytes": "-1"}
    assert not store.exists()
    store.append([b"1", b"2", b"3"])
    assert context.topic.batches == [2, 1]
    context.topic.values.append(None)
    assert list(store.read()) == [b"1", b"2", b"3"]


def test_topic_without_brokers_has_the_workers_clients() -> None:
    context = _Context()
    open_store(parsed(), context.open)
    assert [(settings.consumer, settings.producer) for _, settings in context.opened] == [({}, {})]


def test_stores_are_chosen_by_kind(tmp_path: Path) -> None:
    assert isinstance(open_store(HistorySettings(FILE, file=str(tmp_path / "h")), _Context().open), FileHistoryStore)
    assert isinstance(open_store(HistorySettings(MEMORY), _Context().open), MemoryHistoryStore)


def test_files_with_other_names_are_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    target = history(MemoryHistoryStore())
    record_all(target, "CREATE TABLE t (a INT)", "ALTER TABLE t ADD b INT")
    assert known(target, position(1) | {"file": "moved.000001"}) == {"d.t": ["a", "b"]}
    assert [record.getMessage() for record in caplog.records if "other names than moved.000001" in record.getMessage()] != []
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    "ddl",
    [
        "DROP TEMPORARY TABLE IF EXISTS `x` /* generated by server */",
        "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,2) ON DUPLICATE KEY UPDATE value = 2",
        "flush relay logs x",
        "SAVEPOINT a",
        "# Dummy event replacing event type 160",
        "GRANT ALL ON *.* TO x",
        "SET STATEMENT a=1 FOR ANALYZE TABLE t",
        "CREATE OR REPLACE USER x",
        "CREATE DEFINER=`r`@`%` TRIGGER t BEFORE\nINSERT ON x FOR EACH ROW SET NEW.a = 1",
    ],
)
def test_ddl_that_is_filtered_by_default(ddl: str) -> None:
    selection = DdlSelection(HistorySettings(), lambda _: True, lambda _: True)
    assert selection.is_ignored(ddl)
    assert not selection.is_stored(ddl, "d", [_alteration("d", "t")])


def _alteration(database: str, table: str) -> TableDdlChange:
    return TableDdlChange(DdlKind.ALTER, TableId(database, table), None, "")


def _selection(settings: HistorySettings) -> DdlSelection:
    return DdlSelection(settings, lambda id: id == TableId("d", "t"), lambda name: name == "d")


def test_ddl_of_tables_that_are_not_captured_is_stored_unless_configured() -> None:
    def selected(settings: HistorySettings, database: str, *tables: str) -> bool:
        changes = [_alteration(database, table) for table in tables]
        return _selection(settings).is_stored("ALTER TABLE ...", database, changes)

    assert selected(parsed(), "x", "u")
    tables = parsed(store_only_captured_tables_ddl="true")
    assert (selected(tables, "d", "u"), selected(tables, "d", "u", "t"), selected(tables, "d")) == (False, True, False)
    databases = parsed(store_only_captured_databases_ddl="TRUE")
    assert (selected(databases, "x", "t"), selected(databases, "d", "u")) == (False, True)
    assert not selected(parsed(ddl_filter="ALTER .*"), "d", "t")
    settings = HistorySettings(only_captured_tables=True)
    assert DdlSelection(settings, lambda _: False, lambda _: True).is_stored("SET character_set_server=utf8", "", [])


def test_database_of_the_changed_table_counts_not_that_of_the_session() -> None:
    selection = _selection(parsed(store_only_captured_databases_ddl="true"))
    assert selection.is_stored("ALTER TABLE d.t ...", "x", [_alteration("d", "t")])
    assert not selection.is_stored("ALTER TABLE x.t ...", "d", [_alteration("x", "t")])


def test_ddl_of_captured_databases_is_stored_for_their_character_sets() -> None:
    for settings in (parsed(store_only_captured_tables_ddl="true"), parsed(store_only_captured_databases_ddl="true")):
        for name in ("d", "x"):
            change = DatabaseChange(DdlKind.ALTER, name, "latin1", "")
            assert _selection(settings).is_stored("ALTER DATABASE ...", "y", [change]) is (name == "d")


def test_ddl_filter_has_commas_within_expressions() -> None:
    assert compile_ddl_filter(parsed(ddl_filter=r"a\,b,c.*").ddl_filter)("A,B")


@pytest.mark.parametrize(
    ("key", "value"), [("ddl_filter", "(("), ("skip_unparseable_ddl", "maybe"), ("kafka_buffer_batch_size", "0")]
)
def test_settings_that_are_wrong_are_refused(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=key.replace("_", r"\.")):
        parsed(**{key: value})
