"""When heartbeats are due, and what the slot's xmin costs."""

from __future__ import annotations

from typing import Any, cast

from connect.testing import ManualClock
from connectors.cdc.streaming.heartbeat import Heartbeat
from connectors.postgres.config import parse_config
from connectors.postgres.connection import Connection
from connectors.postgres.streaming.slots import SlotXmin

BASE = {
    "topic.prefix": "p",
    "database.hostname": "h",
    "database.user": "u",
    "database.password": "s3cret",
    "database.dbname": "d",
}


class FakeConnection:
    """Answers every query with the same row."""

    def __init__(self, xmin: str | None) -> None:
        self.queries: list[str] = []
        self.xmin = xmin

    def query(self, sql: str, params: Any = ()) -> list[tuple[str | None]]:
        self.queries.append(sql)
        return [(self.xmin,)]

    def execute(self, sql: str) -> None:
        self.queries.append(sql)


def test_heartbeats_are_due_at_their_interval() -> None:
    clock, connection = ManualClock(), FakeConnection(None)
    settings = parse_config({**BASE, "heartbeat.interval.ms": "2000", "heartbeat.action.query": "select 1"})
    heartbeat = Heartbeat(settings.heartbeat, settings.topic_prefix, connection.execute, clock.monotonic)
    assert not heartbeat.is_due
    assert heartbeat.limit_wait_s(5.0) == 2.0
    clock.advance(2)
    assert heartbeat.limit_wait_s(5.0) == 0.0
    record = heartbeat.beat({"lsn": 5})
    assert (record.topic, record.source_offset) == ("__debezium-heartbeat.p", {"lsn": 5})
    assert connection.queries == ["select 1"]
    assert heartbeat.limit_wait_s(5.0) == 2.0


def test_without_an_interval_there_are_no_heartbeats() -> None:
    clock = ManualClock()
    heartbeat = Heartbeat(parse_config(BASE).heartbeat, "p", FakeConnection(None).execute, clock.monotonic)
    clock.advance(3_600)
    assert not heartbeat.is_due
    assert heartbeat.limit_wait_s(5.0) == 5.0


def test_xmin_is_read_at_its_interval_and_again_while_it_is_unknown() -> None:
    clock, connection = ManualClock(), FakeConnection(None)
    settings = parse_config({**BASE, "xmin.fetch.interval.ms": "2000"})
    xmin = SlotXmin(settings.slot, lambda: cast(Connection, connection), clock.monotonic)
    assert xmin.read() is None
    connection.xmin = "750"
    assert [xmin.read(), xmin.read()] == [750, 750]
    assert len(connection.queries) == 2
    connection.xmin = "760"
    clock.advance(2)
    assert xmin.read() == 760


def test_xmin_is_not_read_by_default() -> None:
    connection = FakeConnection("750")
    assert SlotXmin(parse_config(BASE).slot, lambda: cast(Connection, connection)).read() is None
    assert connection.queries == []
