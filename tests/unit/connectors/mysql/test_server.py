"""The state of MySQL servers, which the integration tests do not have: constructed answers."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError
from connectors.cdc.errors import PositionLostError
from connectors.mysql.binlog import GtidSet, MariaDbGtidPosition
from connectors.mysql.config import MySqlAddress, parse_config
from connectors.mysql.errors import DuplicateServerIdError, MySqlServerError, ServerReplacedError
from connectors.mysql.offsets import BinlogPosition, parse_offset
from connectors.mysql.server import (
    ServerInfo,
    check_server,
    describe_replicas,
    find_lost_position,
    read_executed,
    read_position,
    read_replication_source,
    read_start_gtids,
    resume_position,
)
from connectors.mysql.sessions import MySqlSessions

A, B, C = (f"{letter * 8}-71ca-11e1-9e33-c80aa9429562" for letter in "abc")
GOOD = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL", "server_id": "1", "gtid_mode": "ON"}


class Scripted:
    """Answers statements; those without an answer fail with a syntax error."""

    def __init__(self, answers: dict[str, list[tuple[Any, ...]]], names: tuple[str, ...] = (), product: str = "MySQL") -> None:
        self.answers = answers
        self.address = MySqlAddress("db", 3306, "cdc", None, product=product)
        self.asked: list[str] = []
        self.driver = self
        self._result = self
        self.fields = [Field(name) for name in names]

    def query(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        self.asked.append(sql)
        if sql not in self.answers:
            raise MySqlServerError("You have an error in your SQL syntax", 1064)
        return self.answers[sql]


class Field:
    def __init__(self, name: str) -> None:
        self.name = name


def scripted(answers: dict[str, list[tuple[Any, ...]]], *names: str, product: str = "MySQL") -> Any:
    return Scripted(answers, names, product)


def info(version: tuple[int, int, int] = (8, 4, 0), *, is_mariadb: bool = False, **variables: Any) -> ServerInfo:
    return ServerInfo(".".join(map(str, version)), version, is_mariadb, {**GOOD, **variables})


@pytest.mark.parametrize(
    ("version", "statement"),
    [((5, 7, 44), "SHOW MASTER STATUS"), ((8, 0, 36), "SHOW MASTER STATUS"), ((8, 4, 0), "SHOW BINARY LOG STATUS")],
)
def test_the_end_of_the_log_is_read_with_its_gtids(version: tuple[int, int, int], statement: str) -> None:
    connection = scripted({statement: [("binlog.000003", "1571", "", "", f"{A}:1-5,\n{B}:1")]})
    assert read_position(connection, info(version)) == BinlogPosition("binlog.000003", 1571, f"{A}:1-5,{B}:1")
    assert read_position(connection, info(version, gtid_mode="OFF")).gtids is None
    with pytest.raises(ConfigError, match="writes no binary log"):
        read_position(scripted({statement: []}), info(version))


def test_executed_gtids_are_empty_without_gtids() -> None:
    connection = scripted({"SELECT @@GLOBAL.gtid_executed": [(f"{A}:1-5",)]})
    assert read_executed(connection, info()) == GtidSet.parse(f"{A}:1-5")
    assert read_executed(connection, info(gtid_mode="OFF_PERMISSIVE")) == GtidSet()


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"log_bin": "OFF"}, "writes no binary log: set log_bin"),
        ({"binlog_format": "MIXED"}, "binlog_format=MIXED: set it to ROW"),
        ({"binlog_row_image": "MINIMAL"}, "binlog_row_image=MINIMAL: set it to FULL"),
        ({"server_id": "0"}, "server_id=0"),
    ],
)
def test_servers_that_log_no_rows_are_rejected(variables: dict[str, Any], message: str) -> None:
    check_server(scripted({}), info())
    with pytest.raises(ConfigError, match=message):
        check_server(scripted({}), info(**variables))


def test_the_connector_class_must_be_that_of_the_server() -> None:
    with pytest.raises(
        ConfigError, match=r"is 11\.4\.5: use connector\.class=io\.debezium\.connector\.mariadb\.MariaDbConnector"
    ):
        check_server(scripted({}), info((11, 4, 5), is_mariadb=True))
    with pytest.raises(ConfigError, match=r"use connector\.class=io\.debezium\.connector\.mysql\.MySqlConnector"):
        check_server(scripted({}, product="MariaDB"), info())


def test_expiry_is_in_seconds_or_days() -> None:
    assert info(binlog_expire_logs_seconds="60", expire_logs_days="1").expires_s == 60
    assert info(expire_logs_days="0.5").expires_s == 43_200
    assert info().expires_s == 0


def test_the_stream_begins_after_stored_gtids_and_after_purged_ones_of_new_sources() -> None:
    stored = GtidSet.parse(f"{A}:1-5,{B}:1-2")
    connection = scripted({"SELECT @@GLOBAL.gtid_purged": [(f"{A}:1-9,{C}:1-3",)]})
    assert read_start_gtids(connection, info(), stored, None) == GtidSet.parse(f"{A}:1-5,{B}:1-2,{C}:1-3")


def test_the_stream_begins_after_gtids_of_sources_that_are_not_read_as_far_as_the_server_has_them() -> None:
    executed, purged = f"{A}:1-9,{B}:1-9,{C}:1-3", f"{C}:1-3"
    connection = scripted({"SELECT @@GLOBAL.gtid_executed": [(executed,)], "SELECT @@GLOBAL.gtid_purged": [(purged,)]})
    stored = GtidSet.parse(f"{A}:1-5,{B}:1-12")
    expected = GtidSet.parse(f"{A}:1-5,{B}:1-9,{C}:1-3")
    assert read_start_gtids(connection, info(), stored, lambda source: source == A) == expected
    # What was purged of them is not requested.
    connection.answers["SELECT @@GLOBAL.gtid_purged"] = [(f"{A}:1-7,{C}:1-3",)]
    expected = GtidSet.parse(f"{A}:1-7,{B}:1-12,{C}:1-3")
    assert read_start_gtids(connection, info(), stored, lambda source: source == B) == expected


def test_the_stream_begins_after_gtids_of_mariadb_that_it_does_not_refuse() -> None:
    connection = scripted({"SELECT @@GLOBAL.gtid_binlog_state": [("0-1-5,0-2-9,1-3-8",)]}, product="MariaDB")
    server = info((11, 4, 5), is_mariadb=True)
    for text, expected in {
        "0-1-5,1-3-7,2-4-1": "0-1-5,1-3-7",
        "0-1-6,1-3-9": "0-1-6",
        "0-1-5,1-9-3": "0-1-5",
    }.items():
        found = read_start_gtids(connection, server, MariaDbGtidPosition.parse(text), lambda source: source == "0-1")
        assert str(found) == expected
        assert str(read_start_gtids(scripted({}), server, MariaDbGtidPosition.parse(text), None)) == text


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (f"{A}:1-5", None),
        (f"{A}:1-3", None),
        (f"{A}:1-2", PositionLostError),
        (f"{A}:1-5,{C}:1", ServerReplacedError),
        (f"{A}:1-50", ServerReplacedError),
    ],
)
def test_lost_gtids_are_found_before_the_stream_begins(stored: str, expected: type[Exception] | None) -> None:
    connection = scripted(
        {"SELECT @@GLOBAL.gtid_executed": [(f"{A}:1-10,{B}:1-4",)], "SELECT @@GLOBAL.gtid_purged": [(f"{A}:1-3,{B}:1-4",)]}
    )
    position = BinlogPosition("binlog.000001", 4, stored)
    error = find_lost_position(connection, info(), position, by_gtid=True)
    assert type(error) is (expected or type(None))
    # GTIDs of sources that are not read do not count.
    assert find_lost_position(connection, info(), position, by_gtid=True, reads_source=lambda source: source == B) is None


def test_gtids_of_mysql_are_lost_on_mariadb() -> None:
    server = info((11, 4, 5), is_mariadb=True)
    connection = scripted({"SELECT @@GLOBAL.gtid_binlog_pos": [("0-1-5",)]}, product="MariaDB")
    assert read_executed(connection, server) == MariaDbGtidPosition.parse("0-1-5")
    error = find_lost_position(connection, server, BinlogPosition("binlog.000001", 4, f"{A}:1-5"), by_gtid=True)
    assert type(error) is ServerReplacedError


def test_a_transaction_in_progress_starts_over_on_another_server() -> None:
    offset = {"file": "binlog.000001", "pos": 4, "gtids": f"{A}:1-3", "event": 3, "row": 1, "tx_gtid": f"{A}:4"}
    same, other = (parse_offset({**offset, "server_uuid": uuid}) for uuid in (A, B))
    server = info(server_uuid=A)
    assert resume_position(same, server) == same.position
    assert resume_position(parse_offset(offset), server) == same.position
    assert resume_position(other, server) == BinlogPosition("binlog.000001", 4, f"{A}:1-3")


def test_replicas_with_the_same_id_are_named() -> None:
    names = ("Server_Id", "Host", "Port", "Source_Id", "Replica_UUID")
    connection = scripted({"SHOW REPLICAS": [("7", "other", "0", "1", ""), ("8", "third", "0", "1", "")]}, *names)
    assert describe_replicas(connection, 7) == "server ID 7 on host other"
    old = scripted({"SHOW SLAVE HOSTS": [("7", "old", "3306", "1", "")]}, "Server_id", "Host", "Port", "Master_id", "Slave_UUID")
    assert describe_replicas(old, 7) == "server ID 7 on host old"
    assert describe_replicas(scripted({}), 7) == ""


def test_the_source_of_a_replica_is_named() -> None:
    connection = scripted({"SHOW REPLICA STATUS": [("x", "primary", "3306")]}, "State", "Source_Host", "Source_Port")
    assert read_replication_source(connection, info()) == "primary:3306"
    assert read_replication_source(scripted({"SHOW REPLICA STATUS": []}), info()) is None
    assert read_replication_source(scripted({}), info()) is None


def test_a_server_that_cannot_be_asked_leaves_the_error_of_a_duplicate_server_id() -> None:
    config = {
        "topic.prefix": "shop",
        "database.hostname": "127.0.0.1",
        "database.port": "1",
        "database.user": "cdc",
        "database.server.id": "4714",
        "schema.history.internal.kafka.topic": "history",
    }
    sessions = MySqlSessions(parse_config(config))
    try:
        error = sessions.explain_duplicate(DuplicateServerIdError("ended"))
    finally:
        sessions.interrupt.close()
    assert str(error) == "ended. Give each connector and replica its own ID: database.server.id=4714 is used twice"
