"""Connections: a server that is unavailable or silent, and rows that are large."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from connectors.postgres.streaming.replication import ReplicationStream
from tests.cluster.proxy import TcpProxy
from tests.support.waiting import Deadline


@pytest.fixture
def proxy(source: Any) -> Iterator[TcpProxy]:
    made = TcpProxy(source.server.port)
    made.start()
    source.config["database.port"] = str(made.port)
    yield made
    made.restore()
    source.kill()
    made.close()


def test_a_server_that_is_unavailable_at_the_start_is_waited_for(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key); insert into t values (1)")
    source.server.stop()
    try:
        source.start(retriable_restart_connector_wait_ms="100")
        assert source.task.progress()["phase"] == "reconnecting"
        assert source.poll() == []
    finally:
        source.server.start()
    assert [r.key["id"] for r in source.until("streaming")] == [1]


def test_a_silent_connection_is_replaced(
    source: Any, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key)")
        answers: list[bool] = []
        on_keepalive = ReplicationStream._on_keepalive

        def on_keepalive_noted(stream: ReplicationStream, *arguments: Any) -> None:
            answers.append(True)
            on_keepalive(stream, *arguments)

        source.start(snapshot_mode="never", wal_receiver_timeout_ms="2000", retriable_restart_connector_wait_ms="100")
        source.until("streaming")
        source.quiet()
        monkeypatch.setattr(ReplicationStream, "_on_keepalive", on_keepalive_noted)
        source.idle_until(lambda: len(answers) > 2, "answers")  # a server that answers is not silent
        assert source.task.progress()["phase"] == "streaming"
        assert "has sent nothing" not in caplog.text
        proxy.cut()
        db.execute("insert into t values (1)")
        source.until("reconnecting")
        assert "has sent nothing for 2 s (wal.receiver.timeout.ms)" in caplog.text
        proxy.restore()
        assert [r.key["id"] for r in source.read(1)] == [1]


def test_polls_are_limited_in_bytes(source: Any) -> None:
    with source.sql() as db:
        db.execute("create table t(id int primary key, pad text)")
        source.start(snapshot_mode="never", max_queue_size_in_bytes="2500000")
        source.until("streaming")
        db.execute("insert into t select i, repeat('x', 1000000) from generate_series(1, 9) i")
        ids: list[list[int]] = []
        deadline = Deadline("9 rows", lambda: ids)
        while sum(map(len, ids)) < 9:
            deadline.check()
            ids.append([r.key["id"] for r in source.poll()])
    assert [i for batch in ids for i in batch] == list(range(1, 10))
    assert max(map(len, ids)) <= 3


def test_a_query_that_takes_too_long_is_tried_again(source: Any, caplog: pytest.LogCaptureFixture) -> None:
    with source.sql() as db, source.sql() as blocker:
        db.execute("create table t(id int primary key)")
        blocker.autocommit = False
        blocker.execute("lock table pg_publication")
        source.start(snapshot_mode="never", database_query_timeout_ms="1000")
        assert (
            "took longer than database.query.timeout.ms allows: the server is busy, or the network is interrupted" in caplog.text
        )
        blocker.rollback()
        source.until("streaming")
