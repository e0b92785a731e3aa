"""A DuckDB file shared by several processes: one can write, or several can read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from connect.errors import ConnectError
from connect.testing.harness import MemoryOffsets
from connectors.jdbc import JdbcSource
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.errors import DatabaseUnreachableError
from connectors.jdbc.sql import Sql
from connectors.jdbc.urls.connection_url import parse_connection_url
from tests.integration.jdbc.source.conftest import Source

_OPEN = "import sys, duckdb; con = duckdb.connect(sys.argv[1], read_only=sys.argv[2] == 'read'); "
_OTHER = _OPEN + "{}; print(con.sql('FROM t').fetchall())"
_HOLDER = _OPEN + "print('open', flush=True); input()"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE t(id int PRIMARY KEY); INSERT INTO t VALUES (1)")
    return path


def another_process(file: Path, what: str, does: str = "pass") -> str:
    command = [sys.executable, "-c", _OTHER.format(does), str(file), what]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def holding(file: Path, what: str) -> Iterator[None]:
    """While another process has the file open."""
    command = [sys.executable, "-c", _HOLDER, str(file), what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        yield
        holder.communicate(b"\n")


def database(file: Path, *, reads_only: bool) -> Database:
    target = parse_connection_url(f"jdbc:duckdb:{file}", None, None, {})
    return Database(ConnectionSettings(target, attempts=1, reads_only=reads_only))


def test_a_source_shares_the_file_with_readers_and_releases_it_between_queries(file: Path) -> None:
    config = {
        "name": "ducks", "connection.url": f"jdbc:duckdb:{file}", "mode": "incrementing", "incrementing.column.name": "id",
        "topic.prefix": "", "poll.interval.ms": "1",
    }  # fmt: skip
    with holding(file, "read"):
        source = Source(config, MemoryOffsets(), 1, JdbcSource)
        assert [record.value.get("id") for record in source.read(1)] == [1]
    try:
        assert another_process(file, "write", "con.execute('INSERT INTO t VALUES (2)')") == "[(1,), (2,)]"
        assert [record.value.get("id") for record in source.read(1)] == [2]
    finally:
        source.stop()


def test_a_source_reads_next_to_a_sink_of_the_same_process(file: Path) -> None:
    sink, source = database(file, reads_only=False), database(file, reads_only=True)
    writing, reading = sink.session(), source.session()
    writing.execute(Sql("INSERT INTO t VALUES (2)"), "writing")
    writing.commit()
    assert reading.query(Sql("SELECT id FROM t ORDER BY id"), "looking") == [(1,), (2,)]
    for one in (reading, writing):
        one.close()
    sink.close()
    source.close()


def test_a_file_that_another_process_writes_is_reported_with_the_rule(file: Path) -> None:
    with (
        holding(file, "write"),
        pytest.raises(DatabaseUnreachableError, match=r"another process has the file open: DuckDB allows .* one writing process"),
    ):
        database(file, reads_only=True).session()


def test_a_stored_error_does_not_keep_the_file_open(file: Path) -> None:
    config = {
        "name": "ducks", "connection.url": f"jdbc:duckdb:{file}", "mode": "bulk", "topic.prefix": "", "poll.interval.ms": "1",
    }  # fmt: skip
    failed = Source({**config, "key.columns": "nope"}, MemoryOffsets(), 1, JdbcSource)
    with pytest.raises(ConnectError, match="nope") as kept:
        failed.read(1)
    failed.stop()
    again = Source(config, MemoryOffsets(), 1, JdbcSource)
    assert again.read(1)
    again.stop()
    assert kept.value.__traceback__ is not None
