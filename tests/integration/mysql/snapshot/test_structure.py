"""The structure of tables in a snapshot: the schema history, and schema change events."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from connectors.cdc.errors import TablesChangedError
from connectors.mysql.catalog import read_create_table
from connectors.mysql.offsets import parse_offset
from connectors.mysql.schema.ddl import UnparsedDdlError, parse_create_table
from connectors.mysql.schema.model import TableId
from connectors.mysql.server import read_position
from connectors.mysql.snapshot import structure
from connectors.mysql.snapshot.point import start_transactions
from tests.integration.mysql.snapshot.rig import SnapshotSource, is_row


@pytest.fixture
def other(source: SnapshotSource) -> Any:
    """Another database, which is not captured."""
    name = f"{source.database}_other"
    source.execute(f"CREATE DATABASE {name}", f"CREATE TABLE {name}.t (id INT)")
    yield name
    source.execute(f"DROP DATABASE {name}")


def create_tables(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT PRIMARY KEY)", "CREATE TABLE b (id INT PRIMARY KEY)", "INSERT INTO a VALUES (1)")


def recorded(source: SnapshotSource) -> list[dict[str, Any]]:
    return [orjson.loads(record) for record in source.store.records]


def test_history_has_the_statements_in_debeziums_order(source: SnapshotSource) -> None:
    create_tables(source)
    attempt = source.attempt()
    attempt.snapshot.start()
    name = source.database
    found = recorded(source)
    assert [(record["databaseName"], record["ddl"].split("(")[0].strip()) for record in found] == [
        ("", "SET character_set_server=utf8mb4, collation_server=utf8mb4_general_ci;"),
        (name, f"DROP TABLE IF EXISTS `{name}`.`a`"),
        (name, f"DROP TABLE IF EXISTS `{name}`.`b`"),
        (name, f"DROP DATABASE IF EXISTS `{name}`"),
        (name, f"CREATE DATABASE `{name}` CHARSET utf8mb4 COLLATE utf8mb4_general_ci"),
        (name, f"USE `{name}`"),
        (name, "CREATE TABLE `a`"),
        (name, "CREATE TABLE `b`"),
    ]
    position = attempt.snapshot.position
    assert {(record["position"]["file"], record["position"]["pos"]) for record in found} == {(position.file, position.position)}
    assert [change["type"] for record in found for change in record["tableChanges"]] == ["DROP", "DROP", "CREATE", "CREATE"]
    rows = attempt.read_all()
    later = source.attempt()
    assert later.structures.recover(rows[-1].source_offset or {}) == 8
    assert later.structures.tables == attempt.structures.tables
    assert later.structures.database_charsets[name] == "utf8mb4"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"store.only.captured.databases.ddl": "false"}, {"a", "b", "t"}),
        ({"store.only.captured.databases.ddl": "true"}, {"a", "b"}),
        ({"store.only.captured.tables.ddl": "true"}, {"b"}),
    ],
)
def test_history_has_the_tables_that_are_asked_for(
    source: SnapshotSource, other: str, settings: dict[str, str], expected: set[str]
) -> None:
    create_tables(source)
    source.config |= {f"schema.history.internal.{key}": value for key, value in settings.items()}
    source.config["table.include.list"] = rf"{source.database}\.b"
    attempt = source.attempt()
    attempt.snapshot.start()
    created = {
        record["ddl"].split("`")[1]
        for record in recorded(source)
        if record["ddl"].startswith("CREATE TABLE") and record["databaseName"] in (source.database, other)
    }
    assert created == expected
    assert attempt.read_all() == []
    assert attempt.snapshot.tables == (f"{source.database}.b",)


def test_schema_change_events_come_before_rows(source: SnapshotSource) -> None:
    create_tables(source)
    attempt = source.attempt(include_schema_changes="true")
    attempt.snapshot.start()
    records = attempt.read_all()
    events = [record for record in records if not is_row(record)]
    assert len(events) == 8
    assert records[:8] == events
    event = events[6]
    assert (event.topic, event.partition, event.key["databaseName"]) == ("shop", 0, source.database)
    value = event.value
    assert value["ddl"].startswith("CREATE TABLE `a`")
    assert (value["databaseName"], value["source"]["table"], value["source"]["snapshot"]) == (source.database, "a", "true")
    (change,) = value["tableChanges"]
    assert (change["type"], change["id"]) == ("CREATE", f'"{source.database}"."a"')
    assert change["table"]["primaryKeyColumnNames"] == ["id"]
    assert events[0].key["databaseName"] == ""
    assert {parse_offset(event.source_offset or {}).snapshot_completed for event in events} == {False}
    assert parse_offset(records[-1].source_offset or {}).snapshot_completed


def test_snapshot_of_the_structure_alone(source: SnapshotSource) -> None:
    create_tables(source)
    attempt = source.attempt(include_schema_changes="true", snapshot_mode="no_data")
    attempt.snapshot.start_structure()
    records = attempt.read_all()
    assert len(records) == len(source.store.records) == 8
    stored = parse_offset(records[-1].source_offset or {})
    assert (stored.snapshot_completed, stored.position) == (True, attempt.snapshot.position)


def test_history_is_rebuilt_for_a_stored_position(source: SnapshotSource) -> None:
    create_tables(source)
    first = source.attempt()
    first.snapshot.start()
    offset = first.read_all()[-1].source_offset or {}
    source.execute("INSERT INTO a VALUES (2)")
    source.store.records.clear()
    attempt = source.attempt()
    attempt.snapshot.start_structure(parse_offset(offset).position, offset)
    assert attempt.read_all() == []
    assert attempt.snapshot.position == first.snapshot.position
    later = source.attempt()
    later.structures.recover(offset)
    assert set(later.structures.tables) == {TableId(source.database, "a"), TableId(source.database, "b")}


def test_change_of_a_table_between_position_and_structure_is_noticed(
    source: SnapshotSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ALTER in an instant: neither the transaction nor the rows tell it."""
    create_tables(source)
    altered: list[str] = []

    def start_then_alter(*arguments: Any, **keywords: Any) -> Any:
        position = start_transactions(*arguments, **keywords)
        if not altered:
            altered.append("x")
            source.execute("ALTER TABLE a ADD COLUMN x INT, ALGORITHM=INSTANT")
        return position

    monkeypatch.setattr("connectors.mysql.snapshot.start.start_transactions", start_then_alter)
    attempt = source.attempt()
    attempt.snapshot.start()
    columns = [column.name for column in attempt.structures.tables[TableId(source.database, "a")].columns]
    assert columns == ["id", "x"]
    (row,) = attempt.read_all()
    source.execute("INSERT INTO a VALUES (2, 2)")
    # The log from the position on does not have the statement, which would not fit.
    (insert,) = attempt.stream(attempt.snapshot.position, read_position(source.sql, attempt.server))
    assert insert.value["after"].as_dict() == {"id": 2, "x": 2}
    assert row.value["after"].as_dict() == {"id": 1, "x": None}


def test_tables_that_change_all_the_time_need_a_lock(source: SnapshotSource, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(source)
    monkeypatch.setattr(structure.CatalogTables, "has_structure_of", lambda self, other: False)
    attempt = source.attempt(snapshot_locking_mode="none")
    with pytest.raises(TablesChangedError):
        attempt.snapshot.start()
    locked = source.attempt(snapshot_locking_mode="minimal")
    locked.snapshot.start()
    assert len(locked.read_all()) == 1


def test_counters_are_no_part_of_the_structure(source: SnapshotSource) -> None:
    source.execute("CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY)")
    attempt = source.attempt()
    reader = structure.StructureReader(attempt.tables.captures, attempt.tables.captures)
    before = reader.read(source.sql)
    source.execute("INSERT INTO a VALUES (), ()")
    assert reader.read(source.sql).has_structure_of(before)
    source.execute("ALTER TABLE a COMMENT 'x'")
    assert not reader.read(source.sql).has_structure_of(before)


def test_only_tables_whose_rows_are_read_are_described_if_the_history_has_the_others(
    source: SnapshotSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_tables(source)
    source.execute("CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))")
    attempt = source.attempt(
        signal_data_collection=f"{source.database}.signals", snapshot_include_collection_list=rf"{source.database}\.a"
    )
    attempt.snapshot.start()
    offset = attempt.read_all()[-1].source_offset or {}
    described: list[str] = []

    def note(connection: Any, database: str, name: str) -> str | None:
        described.append(name)
        return read_create_table(connection, database, name)

    monkeypatch.setattr(structure, "read_create_table", note)
    again = source.attempt()
    again.structures.recover(offset)
    again.snapshot.start(records_structure=False)
    assert len(again.read_all()) == 1
    assert set(described) == {"a"}


def test_statement_that_cannot_be_parsed(source: SnapshotSource, monkeypatch: pytest.MonkeyPatch) -> None:
    create_tables(source)

    def refuse(text: str, database: str, context: Any) -> Any:
        if "`b`" in text:
            raise UnparsedDdlError("no table", text)
        return parse_create_table(text, database, context)

    monkeypatch.setattr(structure, "parse_create_table", refuse)
    with pytest.raises(UnparsedDdlError):
        source.attempt().snapshot.start()
    assert source.store.records == []  # all or nothing
    source.config["table.include.list"] = rf"{source.database}\.a"
    assert len(source.take()) == 1


def test_signal_table_is_captured_and_not_read(source: SnapshotSource) -> None:
    create_tables(source)
    source.execute("CREATE TABLE signals (id VARCHAR(42) PRIMARY KEY, type VARCHAR(32), data VARCHAR(2048))")
    source.execute("INSERT INTO signals VALUES ('1', 'log', '{}')")
    attempt = source.attempt(signal_data_collection=f"{source.database}.signals")
    attempt.snapshot.start()
    assert attempt.snapshot.tables == (f"{source.database}.a", f"{source.database}.b")
    assert TableId(source.database, "signals") in attempt.structures.tables
