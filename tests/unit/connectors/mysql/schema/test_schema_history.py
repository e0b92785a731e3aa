"""The schema history: what is stored, where, and what is recovered at a position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, DataError
from connect.source import OwnedTopic, OwnedTopicSettings, TopicRecord
from connectors.mysql.schema.ddl import DdlContext, UnparsedDdlError, apply, apply_changes
from connectors.mysql.schema.history.history import FILE, KAFKA, MEMORY, SchemaHistory, open_store
from connectors.mysql.schema.history.positions import PositionComparison
from connectors.mysql.schema.history.records import HistoryRecord, encode_record
from connectors.mysql.schema.history.settings import DdlSelection, SchemaHistorySettings, ddl_filter
from connectors.mysql.schema.history.store import FileHistoryStore, HistoryStore, MemoryHistoryStore
from connectors.mysql.schema.model import MySqlTable, TableId

_UUID, _OTHER = "24bc7850-2c16-11e6-a073-0242ac110002", "7c1de3f2-3fd2-11e6-9cdc-42010af000bc"
_CONTEXT = DdlContext(server_charset="utf8mb4")
_SETTINGS = SchemaHistorySettings()


def position(pos: int, **more: Any) -> dict[str, Any]:
    return {"file": "bin.000001", "pos": pos, **more}


def history(store: HistoryStore, settings: SchemaHistorySettings = _SETTINGS, server: str = "shop") -> SchemaHistory:
    return SchemaHistory(store, {"server": server}, settings, PositionComparison(is_mariadb=False))


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
    assert known(history(store, SchemaHistorySettings(skips_unparseable_ddl=True)), position(99)) == {"d.t": ["a"]}


def test_tables_come_from_ddl_if_that_is_preferred() -> None:
    target = history(MemoryHistoryStore(), SchemaHistorySettings(prefers_ddl=True))
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


_KAFKA = {
    "schema.history.internal.kafka.topic": "history",
    "schema.history.internal.kafka.bootstrap.servers": "broker:9092",
}


def test_topic_is_opened_with_the_settings_of_its_clients() -> None:
    context = _Context()
    config = {
        **_KAFKA,
        "schema.history.internal": KAFKA,
        "schema.history.internal.name": "mine",
        "schema.history.internal.producer.security.protocol": "SSL",
        "schema.history.internal.consumer.security.protocol": "PLAINTEXT",
        "schema.history.internal.consumer.key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
        "schema.history.internal.kafka.recovery.attempts": "20",
        "schema.history.internal.kafka.query.timeout.ms": "1500",
        "schema.history.internal.kafka.buffer.batch.size": "2",
    }
    store = open_store(config, context.open)
    ((name, settings),) = context.opened
    assert name == "history"
    assert settings.producer == {"bootstrap.servers": "broker:9092", "client.id": "mine", "security.protocol": "SSL"}
    assert settings.consumer == {
        "bootstrap.servers": "broker:9092", "client.id": "mine", "group.id": "mine", "security.protocol": "PLAINTEXT",
    }  # fmt: skip
    assert (settings.query_timeout_s, settings.create_timeout_s, settings.read_timeout_s) == (1.5, 30.0, 2.0)
    assert not store.storage_exists()
    store.initialize()
    assert context.topic.configs == {"cleanup.policy": "delete", "retention.ms": "9223372036854775807", "retention.bytes": "-1"}
    assert not store.exists()
    store.append([b"1", b"2", b"3"])
    assert context.topic.batches == [2, 1]
    context.topic.values.append(None)
    assert list(store.read()) == [b"1", b"2", b"3"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({}, "configuration schema.history.internal.kafka.topic: A value is required"),
        ({"schema.history.internal.kafka.topic": "x"}, "schema.history.internal.kafka.bootstrap.servers: A value is required"),
        ({**_KAFKA, "schema.history.internal.kafka.query.timeout.ms": "0"}, "A positive integer is expected"),
        ({"schema.history.internal": FILE}, "schema.history.internal.file.filename: A value is required"),
        ({"schema.history.internal": "io.debezium.storage.redis.history.RedisSchemaHistory"}, "Redis.*other stores of Debezium"),
    ],
)
def test_incomplete_and_unsupported_stores_are_refused_by_name(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        open_store(config, _Context().open)


def test_stores_are_chosen_by_debeziums_class(tmp_path: Path) -> None:
    file = {"schema.history.internal": FILE, "schema.history.internal.file.filename": str(tmp_path / "h")}
    assert isinstance(open_store(file, _Context().open), FileHistoryStore)
    assert isinstance(open_store({"schema.history.internal": MEMORY}, _Context().open), MemoryHistoryStore)


GTIDS = [
    # recorded, desired, and whether it is at or before
    ({"gtids": f"{_UUID}:1-5"}, {"gtids": f"{_UUID}:1-5"}, True),
    ({"gtids": f"{_UUID}:1-5"}, {"gtids": f"{_UUID}:1-6"}, True),
    ({"gtids": f"{_UUID}:1-6"}, {"gtids": f"{_UUID}:1-5"}, False),
    ({"gtids": f"{_UUID}:1-5,{_OTHER}:1-2"}, {"gtids": f"{_UUID}:1-9"}, False),
    ({"gtids": f"{_UUID}:1-5"}, {"gtids": f"{_UUID}:1-5", "snapshot": True}, False),
    ({"gtids": f"{_UUID}:1-5", "snapshot": True}, {"gtids": f"{_UUID}:1-5"}, True),
    ({"gtids": f"{_UUID}:1-5", "event": 2}, {"gtids": f"{_UUID}:1-5", "event": 1}, False),
    ({"gtids": f"{_UUID}:1-5", "event": 1}, {"gtids": f"{_UUID}:1-5", "event": 1}, True),
    ({"file": "a.1", "pos": 9}, {"gtids": f"{_UUID}:1"}, True),
    ({"gtids": f"{_UUID}:1"}, {"file": "a.1", "pos": 9}, False),
]


@pytest.mark.parametrize(("recorded", "desired", "expected"), GTIDS)
def test_gtid_sets_are_compared(recorded: dict[str, Any], desired: dict[str, Any], expected: bool) -> None:
    assert PositionComparison(is_mariadb=False).is_at_or_before(recorded, desired) is expected


def test_gtids_of_excluded_servers_do_not_count() -> None:
    comparison = PositionComparison(is_mariadb=False, is_source_included=lambda uuid: uuid == _UUID)
    assert comparison.is_at_or_before({"gtids": f"{_UUID}:1-5,{_OTHER}:1-2"}, {"gtids": f"{_UUID}:1-5"})
    mariadb = PositionComparison(is_mariadb=True, is_source_included=lambda source: source == "0-1")
    assert mariadb.is_at_or_before({"gtids": "0-1-5,1-2-9"}, {"gtids": "0-1-5"})


@pytest.mark.parametrize(
    ("recorded", "desired", "expected"),
    [
        ("0-1-5", "0-1-5", True),
        ("0-1-5", "0-2-6", True),  # a domain has one order, whichever server wrote
        ("0-1-7", "0-2-6", False),
        ("0-1-5,1-1-1", "0-1-9", False),
        ("0-1-5", "0-1-9,1-1-1", True),
    ],
)
def test_gtids_of_mariadb_are_compared_by_domain(recorded: str, desired: str, expected: bool) -> None:
    assert PositionComparison(is_mariadb=True).is_at_or_before({"gtids": recorded}, {"gtids": desired}) is expected


@pytest.mark.parametrize(
    ("recorded", "desired", "expected"),
    [
        ({"file": "b.000001", "pos": 9}, {"file": "b.000002", "pos": 4}, True),
        ({"file": "b.000010", "pos": 4}, {"file": "b.000009", "pos": 9}, False),
        ({"file": "b.999999", "pos": 9}, {"file": "b.1000000", "pos": 4}, True),
        ({"file": "b.1", "pos": 9}, {"file": "b.1", "pos": 9}, True),
        ({"file": "b.1", "pos": 10}, {"file": "b.1", "pos": 9}, False),
        ({"file": "b.1", "pos": 9, "event": 2}, {"file": "b.1", "pos": 9, "event": 1}, False),
        ({"file": "b.1", "pos": 9, "event": 1, "row": 3}, {"file": "b.1", "pos": 9, "event": 1, "row": 2}, False),
        ({"file": "b.1", "pos": 9, "row": 1}, {"file": "b.1", "pos": 9, "row": 1}, True),
        ({"file": "z.7", "pos": 9}, {"file": "b.1", "pos": 4}, True),
        ({"file": "b.9", "pos": 9, "server_id": 1, "ts_sec": 5}, {"file": "b.1", "pos": 4, "server_id": 2, "ts_sec": 6}, True),
        ({"file": "b.1", "pos": 4, "server_id": 1, "ts_sec": 7}, {"file": "b.9", "pos": 4, "server_id": 2, "ts_sec": 6}, False),
        ({"file": "b.1", "pos": 4, "snapshot": True}, {"file": "b.1", "pos": 4, "server_id": 2}, True),
    ],
)
def test_files_and_positions_are_compared(recorded: dict[str, Any], desired: dict[str, Any], expected: bool) -> None:
    assert PositionComparison(is_mariadb=False).is_at_or_before(recorded, desired) is expected


@pytest.mark.parametrize("wrong", [{"file": "binlog", "pos": 4}, {"pos": 4}, {"file": "b.1", "pos": "x"}])
def test_positions_that_cannot_be_read_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="position"):
        PositionComparison(is_mariadb=False).is_at_or_before(wrong, {"file": "b.1", "pos": 4})


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
    selection = DdlSelection(SchemaHistorySettings(), lambda _: True, lambda _: True)
    assert selection.is_ignored(ddl)
    assert not selection.is_stored(ddl, "d", [TableId("d", "t")])


def test_ddl_of_tables_that_are_not_captured_is_stored_unless_configured() -> None:
    def selected(config: dict[str, str], database: str, *tables: str) -> bool:
        settings = SchemaHistorySettings.parse({f"schema.history.internal.{key}": value for key, value in config.items()})
        selection = DdlSelection(settings, lambda id: id == TableId("d", "t"), lambda name: name == "d")
        return selection.is_stored("ALTER TABLE ...", database, [TableId(database, table) for table in tables])

    assert selected({}, "x", "u")
    tables = {"store.only.captured.tables.ddl": "true"}
    assert (selected(tables, "d", "u"), selected(tables, "d", "u", "t"), selected(tables, "d")) == (False, True, False)
    databases = {"store.only.captured.databases.ddl": "TRUE"}
    assert (selected(databases, "x", "t"), selected(databases, "d", "u")) == (False, True)
    assert not selected({"ddl.filter": "ALTER .*"}, "d", "t")
    settings = SchemaHistorySettings(stores_only_captured_tables=True)
    assert DdlSelection(settings, lambda _: False, lambda _: True).is_stored("SET character_set_server=utf8", "", [])


def test_settings_that_are_wrong_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"skip\.unparseable\.ddl: expected true or false"):
        SchemaHistorySettings.parse({"schema.history.internal.skip.unparseable.ddl": "maybe"})
    with pytest.raises(ConfigError, match=r"ddl\.filter: a regular expression is invalid"):
        SchemaHistorySettings.parse({"schema.history.internal.ddl.filter": "(("})
    assert ddl_filter(r"a\,b,c.*")("A,B")
