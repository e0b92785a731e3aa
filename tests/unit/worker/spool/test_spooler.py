"""A connector runs into a spool as in a worker: each record once, whatever ends it, and the source is told what was committed."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import orjson
import pytest

from connect import crash_points
from connect.config.properties import write_properties
from connect.errors import ConfigError
from connect.plugins import Plugins
from connect.spool.config import LOWER_CASE
from connect.spool.positions import LOADED, PLANNED, START, SpoolPosition
from connect.spool.reader import SpoolReader
from connect.spool.segments import restore_bytes
from connect.spool.status import WriterState, read_status
from connect.spool.writer import SpoolWriter
from tests.support import randomness
from tests.support.waiting import eventually
from tests.unit.worker.spool.sources import (
    BATCH,
    ConfirmingSource,
    CountingSource,
    CountingTask,
    GrowingSource,
    GrowingTask,
    LateSource,
)
from worker.config.secrets import SecretMask
from worker.spool.__main__ import main
from worker.spool.config import parse_spooler_config, restore_case
from worker.spool.output import SpoolMode
from worker.spool.spooler import Spooler

KILLS = randomness.size("SLUICE_KILLS", 3)
_PR_SET_PDEATHSIG = 1


def path_of(connector: type) -> str:
    return f"{connector.__module__}:{connector.__name__}"


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins.discover()


@pytest.fixture
def properties(tmp_path: Path) -> dict[str, str]:
    CountingTask.commits, CountingTask.confirmed, CountingTask.failures, CountingTask.polled = [], [], 0, 0
    LateSource.starts = GrowingSource.partitions = 0
    return {
        "name": "c",
        "connector.class": path_of(CountingSource),
        "spool.location": str(tmp_path / "spool"),
        "spool.linger.ms": "5",
        "offset.flush.interval.ms": "50",
    }


class Running:
    """A spooler in this process."""

    def __init__(self, properties: dict[str, str], plugins: Plugins, mode: SpoolMode = SpoolMode.STREAM) -> None:
        mask = SecretMask()
        config = parse_spooler_config(properties, plugins, mask)
        self.writer = SpoolWriter(config.spool.location, config.name)
        self.spooler = Spooler(config, plugins, self.writer, mask, mode)
        self.reader = SpoolReader(config.spool.location)

    def __enter__(self) -> Running:
        self.spooler.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.spooler.close()
        self.writer.close()

    def numbers(self, start: SpoolPosition = START) -> dict[int, list[int]]:
        """The numbers in the spool by task, in order."""
        self.reader.refresh()
        found: dict[int, list[int]] = {}
        for part in self.reader.slices(start, self.reader.end):
            rows = part.read(self.reader.directory)
            values = [orjson.loads(value)["payload"] for value in restore_bytes(rows, "value", self.reader.schemas).to_pylist()]
            found.setdefault(part.entry.task, []).extend(values)
        return found

    def wait(self, condition: Callable[[], Any]) -> None:
        """Waits for a condition, while the spool is served as the process does."""

        def served() -> Any:
            self.spooler.confirm()
            return condition()

        eventually(served, "the condition")


def test_all_tasks_write_each_number_once_across_restarts(properties: dict[str, str], plugins: Plugins) -> None:
    for count in (25, 25, 60):
        with Running({**properties, "tasks.max": "3", "count": str(count)}, plugins) as running:
            while sum(map(len, running.numbers().values())) < 3 * count:
                running.spooler.confirm()
    assert running.numbers() == {task: list(range(60)) for task in range(3)}


def test_source_is_told_what_the_reader_has_committed_and_no_more(properties: dict[str, str], plugins: Plugins) -> None:
    with Running({**properties, "count": "20"}, plugins) as running:
        running.wait(lambda: len(running.numbers().get(0, [])) == 20)
        assert CountingTask.commits == []
        running.reader.confirm(running.reader.end)
        running.wait(lambda: CountingTask.commits)
        running.wait(lambda: not list(running.writer.directory.glob("segment-*")))
        assert CountingTask.commits[-1] == ({"task": 0}, {"n": 19})
    with Running({**properties, "count": "30"}, plugins) as running:
        running.wait(lambda: running.numbers(running.reader.confirmed() if running.reader.refresh() else START))
        assert running.numbers(running.reader.confirmed()) == {0: list(range(20, 30))}


def test_connector_waits_while_the_spool_is_full(properties: dict[str, str], plugins: Plugins) -> None:
    full = {**properties, "count": "1000000", "spool.max.bytes": "20000", "spool.segment.max.bytes": "100"}
    with Running(full, plugins) as running:
        running.wait(lambda: running.spooler.output.is_full)
        polled = CountingTask.polled
        running.wait(lambda: len(running.numbers()[0]) >= CountingTask.polled)
        assert CountingTask.polled <= polled + BATCH < 1_000_000
        before = len(running.numbers()[0])
        running.reader.confirm(running.reader.end)
        running.wait(lambda: CountingTask.polled > before)


@pytest.mark.parametrize("mark", [PLANNED, LOADED])
def test_full_spool_does_not_wait_for_the_commit_of_the_last_batch(
    properties: dict[str, str], plugins: Plugins, mark: str
) -> None:  # fmt: skip
    # Spark commits a batch when it plans the next one, which needs a new row.
    full = {**properties, "count": "1000000", "spool.max.bytes": "20000", "spool.segment.max.bytes": "100"}
    with Running(full, plugins) as running:
        running.wait(lambda: running.spooler.output.is_full)
        running.reader.refresh()
        planned = running.reader.end
        running.reader.set_mark(mark, planned)
        running.wait(lambda: not running.spooler.output.is_full)
        running.wait(lambda: running.spooler.output.is_full)
        # Promises 1 and 2: what is planned is not committed.
        assert CountingTask.commits == []
        (numbers,) = running.numbers().values()
        assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("mode", [SpoolMode.LOAD, SpoolMode.SCHEMA])
def test_spool_has_no_limit_before_a_stream_reads_it(properties: dict[str, str], plugins: Plugins, mode: SpoolMode) -> None:
    small = {**properties, "count": "400", "loadSize": "400", "spool.max.bytes": "2000", "spool.segment.max.bytes": "100"}
    with Running(small, plugins, mode) as running:
        running.wait(lambda: running.spooler.has_loaded)
        assert running.numbers() == {0: list(range(400))}


def test_batch_with_a_bad_record_is_not_stored_and_tolerance_skips_the_record(
    properties: dict[str, str], plugins: Plugins
) -> None:  # fmt: skip
    with Running({**properties, "count": "40", "bad": "25"}, plugins) as running:
        running.wait(running.spooler.failure)
        assert re.match("Task c-0 failed: .*Tolerance exceeded", running.spooler.failure() or "")
    assert running.numbers() == {0: list(range(20))}
    with Running({**properties, "count": "40", "bad": "25", "errors.tolerance": "all"}, plugins) as running:
        running.wait(lambda: len(running.numbers()[0]) == 39)
    assert running.numbers() == {0: [number for number in range(40) if number != 25]}


def test_failed_task_restarts_as_configured(properties: dict[str, str], plugins: Plugins) -> None:
    restarts = {"errors.restart.max.attempts": "1", "errors.restart.delay.initial.ms": "1"}
    with Running({**properties, "count": "30", "failAt": "15", **restarts}, plugins) as running:
        running.wait(lambda: running.numbers() == {0: list(range(30))})
        assert CountingTask.failures == 1


def test_failure_for_good_is_reported_with_the_key_that_restarts(properties: dict[str, str], plugins: Plugins) -> None:
    with Running({**properties, "count": "30", "failAt": "15"}, plugins) as running:
        running.wait(running.spooler.failure)
        failure = running.spooler.failure() or ""
        assert failure.startswith("Task c-0 failed: ")
        assert failure.endswith("cannot count beyond 10 (errors.restart.max.attempts restarts it automatically)")


def test_load_ends_with_what_existed_and_a_stream_continues_there(properties: dict[str, str], plugins: Plugins) -> None:
    config = {**properties, "tasks.max": "2", "count": "35", "loadSize": "20"}
    with Running(config, plugins, SpoolMode.LOAD) as running:
        running.wait(lambda: running.spooler.has_loaded)
        assert running.numbers() == {task: list(range(20)) for task in range(2)}
        loaded = running.reader.end
        assert {entry.task for entry in running.reader.entries if entry.loaded} == {0, 1}
    assert running.numbers() == {task: list(range(20)) for task in range(2)}
    with Running(config, plugins) as running:
        running.wait(lambda: running.numbers(loaded) == {task: list(range(20, 35)) for task in range(2)})


def test_load_waits_for_a_connector_that_starts_late(properties: dict[str, str], plugins: Plugins) -> None:
    restarts = {"errors.restart.max.attempts": "1", "errors.restart.delay.initial.ms": "1"}
    config = {**properties, "connector.class": path_of(LateSource), "count": "35", "loadSize": "20", **restarts}
    with Running(config, plugins, SpoolMode.LOAD) as running:
        running.wait(lambda: running.spooler.has_loaded)
        assert running.numbers() == {0: list(range(20))}


def test_load_waits_for_the_first_task_and_for_tasks_with_other_work(properties: dict[str, str], plugins: Plugins) -> None:
    def find_partition() -> None:
        GrowingSource.partitions += 1
        GrowingSource.contexts[-1].request_task_reconfiguration()

    config = {**properties, "connector.class": path_of(GrowingSource), "tasks.max": "2", "count": "35", "loadSize": "20"}
    with Running(config, plugins, SpoolMode.LOAD) as running:
        assert not running.spooler.has_loaded
        find_partition()
        running.wait(lambda: running.spooler.has_loaded)
        assert running.numbers() == {0: list(range(20))}
        find_partition()
        running.wait(lambda: running.numbers() and {entry.task for entry in running.reader.entries if entry.loaded} == {0, 1})
        assert not running.spooler.has_loaded, "what task 0 said before was about other work"
        GrowingTask.may_read.set()
        running.wait(lambda: running.spooler.has_loaded)
        assert sorted(running.numbers()[0]) == sorted([*range(20), *range(20)])


def test_load_of_a_source_that_cannot_tell_its_end_is_refused(properties: dict[str, str], plugins: Plugins) -> None:
    with Running({**properties, "count": "5"}, plugins, SpoolMode.LOAD) as running:
        running.wait(running.spooler.failure)
        assert "CountingTask cannot tell when it has read all that exists" in (running.spooler.failure() or "")
    with Running({**properties, "count": "5"}, plugins, SpoolMode.SCHEMA) as running:
        running.wait(lambda: running.numbers() == {0: list(range(5))})
        assert not running.spooler.has_loaded


def test_task_learns_where_each_record_was_written(properties: dict[str, str], plugins: Plugins) -> None:
    with Running({**properties, "connector.class": path_of(ConfirmingSource), "count": "12"}, plugins) as running:
        running.wait(lambda: len(CountingTask.confirmed) == 12)
    assert CountingTask.confirmed == [(number, number) for number in range(12)]


def test_disk_that_is_full_fails_the_task_and_a_restart_continues(
    properties: dict[str, str], plugins: Plugins, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    import errno

    def no_space(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with Running({**properties, "count": "30"}, plugins) as running, monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        running.wait(running.spooler.failure)
        assert "No space left on device. Free space" in (running.spooler.failure() or "")
    with Running({**properties, "count": "30"}, plugins) as running:
        running.wait(lambda: running.numbers() == {0: list(range(30))})


# --- configuration


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"connector.class": "FileStreamSink"}, "connector.class: it is a sink connector: only source connectors can be read$"),
        ({"connector.class": "PostgresConector"}, "No connector class PostgresConector found.*Did you mean Postgres"),
        ({"cuont": "3"}, "CountingSource has no such key\\. Did you mean count\\?"),
        ({"count": "many"}, "Invalid value many for configuration count"),
        ({"errors.deadletterqueue.source.topic.name": "dlq"}, "errors.deadletterqueue.source.topic.name needs Kafka"),
        ({"spool.max.bytes": "0"}, "spool.max.bytes"),
        ({"spool.location": "s3://bucket/x"}, "expected a directory"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(
    properties: dict[str, str], plugins: Plugins, changes: dict[str, str], problem: str
) -> None:  # fmt: skip
    with pytest.raises(ConfigError) as raised:
        parse_spooler_config({**properties, **changes}, plugins, SecretMask())
    assert re.search(problem, raised.value.message), raised.value.message


def test_keys_in_lower_case_get_their_own_case_back(properties: dict[str, str], plugins: Plugins) -> None:
    given = {
        **properties,
        "loadSize": "3",
        "transforms": "Hoist, Cast",
        "transforms.Hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
        "transforms.Hoist.field": "Name",
        "transforms.Cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.Cast.spec": "Name:string",
    }
    lower = {key.lower(): value for key, value in given.items()}
    assert lower != given
    assert restore_case(lower, plugins) == given


POSTGRES = {"name": "c", "connector.class": "PostgresConnector", "topic.prefix": "shop", "database.hostname": "localhost"}
POSTGRES |= {"database.user": "postgres", "database.dbname": "shop", "plugin.name": "pgoutput", "spool.location": "/spool"}
JDBC = {"name": "c", "connector.class": "JdbcSource", "connection.url": "jdbc:mariadb://h/shop", "spool.location": "/spool"}
JDBC |= {"mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "shop."}
OVERRIDES = "snapshot.select.statement.overrides"


@pytest.mark.parametrize(
    ("config", "key"),
    [
        (POSTGRES, "column.mask.hash.v2.sha-256.with.salt.czqma0cb5k"),
        (JDBC, "jdbc.credentials.provider.role"),
        ({**POSTGRES, OVERRIDES: "public.Orders", f"{OVERRIDES}.public.orders": "SELECT 1"}, f"{OVERRIDES}.public.items"),
    ],
)
def test_key_whose_case_is_lost_is_refused_unless_the_file_has_it(plugins: Plugins, config: dict[str, str], key: str) -> None:
    given = {**config, key: "trust"}
    assert parse_spooler_config(given, plugins, SecretMask()).connector[key] == "trust"
    with pytest.raises(ConfigError, match=f"and {re.escape(key)} may have had capital letters.*set connector.properties"):
        parse_spooler_config({**given, LOWER_CASE: "\n".join(given)}, plugins, SecretMask())


def test_properties_of_drivers_are_options(plugins: Plugins) -> None:
    given = {**JDBC, "connection.sslmode": "trust"}
    found = parse_spooler_config({**given, LOWER_CASE: "\n".join(given)}, plugins, SecretMask())
    assert found.connector["connection.sslmode"] == "trust"


def test_keys_without_capital_letters_and_listed_ones_are_options(plugins: Plugins) -> None:
    given = {
        **POSTGRES,
        "column.mask.with.5.chars": "public.customers.email",
        "column.truncate.to.5.chars": "public.customers.notes",
        "signal.consumer.fetch.min.bytes": "1",
        OVERRIDES: "public.Orders, public.items",
        f"{OVERRIDES}.public.Orders": "SELECT 1",
        f"{OVERRIDES}.public.items": "SELECT 2",
        "config.providers": "Env",
        "config.providers.Env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    lower = {key.lower(): value for key, value in given.items()}
    found = parse_spooler_config({**lower, LOWER_CASE: "\n".join(lower)}, plugins, SecretMask())
    assert found.connector == {key: value for key, value in given.items() if not key.startswith(("config.", "spool."))}
    assert found.worker.providers, "the alias has its own case, too"


# --- processes


@pytest.fixture
def file(properties: dict[str, str], tmp_path: Path) -> Path:
    """The properties as a file, whose connector writes 400 numbers with each of two tasks."""
    path = tmp_path / "c.properties"
    fast = {
        "tasks.max": "2",
        "count": "400",
        "spool.linger.ms": "0",
        "spool.segment.max.bytes": "1",
        "spool.idle.timeout.ms": "400",
    }
    path.write_text(write_properties({**properties, **fast}))
    return path


def forked(file: Path, *arguments: str, crash_at: str | None = None) -> int:
    """Starts the spooler in a process of its own, and returns its ID."""
    child = os.fork()
    if child:
        return child
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        for output in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), output)
        if crash_at is not None:
            crash_points._name, crash_points._left = crash_at, 5
        os._exit(main([*arguments, str(file)]))
    finally:
        os._exit(99)


def end_of(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def has_crashed(child: int) -> bool:
    """Whether the child has killed itself. Fails if it has ended otherwise."""
    ended, status = os.waitpid(child, os.WNOHANG)
    assert not ended or os.waitstatus_to_exitcode(status) == -signal.SIGKILL, f"ended with {os.waitstatus_to_exitcode(status)}"
    return ended != 0


class Reads:
    """Reads a spool like a query: commits a while after it has read."""

    def __init__(self, directory: Path) -> None:
        self.reader = SpoolReader(directory)
        self.position = START
        self.found: dict[int, list[int]] = {}

    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def read_until(self, condition: Callable[[], bool]) -> None:
        def done() -> bool:
            self.read()
            return condition()

        eventually(done, "the records")

    def read(self, *, commits: bool = True) -> None:
        """Reads what is new, and commits what was read before."""
        if not self.reader.refresh():
            return
        if commits:
            self.reader.confirm(self.position)
        for part in self.reader.slices(self.position, self.reader.end):
            rows = part.read(self.reader.directory)
            values = [orjson.loads(value)["payload"] for value in restore_bytes(rows, "value", self.reader.schemas).to_pylist()]
            self.found.setdefault(part.entry.task, []).extend(values)
        self.position = self.reader.end


def test_an_exit_is_no_crash(tmp_path: Path) -> None:
    child = forked(tmp_path / "missing.properties")
    with pytest.raises(AssertionError, match=r"ended with [1-9]"):
        eventually(partial(has_crashed, child), "the end of the child")


@pytest.mark.chaos
def test_kills_at_crash_points_and_at_random_lose_and_double_nothing(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text().replace("count=400", "count=1000000000"))
    chance = randomness.chance("kills")
    (tmp_path / "spool").mkdir()
    reads = Reads(tmp_path / "spool")
    reads.reader.open()
    for point in ("source.polled", "spool.written", "spool.renamed", "spool.indexed", "spool.confirmed"):
        child = forked(file, crash_at=point)
        reads.read_until(partial(has_crashed, child))
    for _ in range(KILLS):
        child = forked(file)
        before, kill_at = reads.count(), time.monotonic() + 0.2 * chance.random()
        reads.read_until(lambda: time.monotonic() > kill_at and reads.count() > before)  # noqa: B023
        os.kill(child, signal.SIGKILL)
        assert end_of(child) == -signal.SIGKILL
    reads.read()  # what follows is of the next process, which then takes signals
    child, before = forked(file), reads.count()
    reads.read_until(lambda: reads.count() > before)
    os.kill(child, signal.SIGTERM)
    assert end_of(child) == 0
    reads.read()
    reads.reader.close()
    assert reads.found == {task: list(range(len(found))) for task, found in reads.found.items()}
    assert sorted(reads.found) == [0, 1]


def test_process_ends_gracefully_on_request_and_without_a_query(file: Path, tmp_path: Path) -> None:
    spool = tmp_path / "spool"
    for signals in ((signal.SIGTERM,), ()):
        child = forked(file)
        for number in signals:
            eventually(
                lambda: (status := read_status(spool)) is not None and status.state is WriterState.RUNNING, "a running process"
            )
            os.kill(child, number)
        assert end_of(child) == 0
        status = read_status(spool)
        assert status is not None
        assert (status.state, status.process) == (WriterState.STOPPED, child)
    reads = Reads(spool)
    reads.read(commits=False)
    assert reads.found == {task: list(range(len(found))) for task, found in reads.found.items()}
    assert reads.found


def test_process_reports_why_it_failed(file: Path, tmp_path: Path) -> None:
    file.write_text(file.read_text().replace("count=400", "count=many"))
    assert end_of(forked(file)) == 1
    status = read_status(tmp_path / "spool")
    assert status is not None
    assert status.state is WriterState.FAILED
    assert "Invalid value many for configuration count" in (status.error or "")


def test_second_process_on_a_spool_leaves_it_to_the_first(file: Path, tmp_path: Path) -> None:
    writer = SpoolWriter(tmp_path / "spool", "c")
    assert end_of(forked(file)) == 2
    assert read_status(tmp_path / "spool") is None
    writer.close()
