"""Delta tables in an S3 bucket: each version is created by one writer, whatever happens between planning it and its PUT."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import fs

from connect.errors import ConnectError, RetriableError
from connect.worker_lifetime import VARIABLE, executor_scope
from connectors.spark.config import parse_config
from connectors.spark.tables.delta import maintenance
from connectors.spark.tables.own_tables import find_own_tables
from tests.integration.spark.lake import Lake
from tests.support.cases import first_fast
from tests.support.s3 import DisturbedS3, EmbeddedS3
from tests.support.waiting import WAIT_S
from tests.unit.connectors.spark.tables.delta.fake_delta import TP, FakeDelta, offsets, rows

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def s3() -> Iterator[EmbeddedS3]:
    server = EmbeddedS3()
    yield server
    server.stop()


@pytest.fixture
def proxy(s3: EmbeddedS3) -> Iterator[DisturbedS3]:
    made = DisturbedS3(s3)
    yield made
    made.stop()


def s3_props(endpoint: str) -> dict[str, str]:
    """Settings as users give them to Spark; the worker uses the same."""
    prefix = "spark.conf.spark.hadoop.fs.s3a."
    return {
        f"{prefix}endpoint": endpoint,
        f"{prefix}endpoint.region": "us-east-1",
        f"{prefix}access.key": "test",
        f"{prefix}secret.key": "test",
    }


@pytest.fixture
def open_lake(
    run: Any, topic: Any, spark_props: dict[str, str], s3: EmbeddedS3, proxy: DisturbedS3
) -> Iterator[Callable[..., Lake]]:
    opened = []

    def open_one(mode: str, scheme: str = "s3a", **more: str) -> Lake:
        props = {**spark_props, **s3_props(proxy.endpoint), **more}
        opened.append(Lake(run, topic, props, mode, f"{scheme}://{s3.create_bucket()}/lake", s3.storage_options))
        return opened[-1]

    yield open_one
    for one in opened:
        one.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("mode", "scheme", "indexed"), [("append", "s3", "0"), pytest.param("upsert", "s3a", "1", marks=pytest.mark.long)]
)
def test_table_is_written_and_continued_after_a_restart(
    open_lake: Callable[..., Lake], mode: str, scheme: str, indexed: str
) -> None:
    lake = open_lake(mode, scheme, **{"upsert.index.max.keys": indexed})
    for _ in range(3):
        lake.write()
    lake.check()
    lake.restarted_writes_all()
    lake.check(with_spark=scheme == "s3a")


@pytest.mark.long
def test_writer_whose_version_another_engine_takes_writes_the_next_one(
    open_lake: Callable[..., Lake], proxy: DisturbedS3, s3: EmbeddedS3
) -> None:
    lake = open_lake("append")
    lake.write()
    proxy.hold_next_put()
    with ThreadPoolExecutor(1) as pool:
        written = pool.submit(lake.write)
        proxy.wait_until_held()
        foreign = pa.table({"id": pa.array([-1], pa.int32()), "v": ["foreign"]})
        write_deltalake(lake.path, foreign, mode="append", storage_options=s3.storage_options)
        proxy.release()
        written.result(WAIT_S)
    lake.write()
    table = DeltaTable(lake.path, storage_options=s3.storage_options)
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [-1, *range(9)]
    assert [commit["operation"] for commit in table.history()] == ["WRITE", "WRITE", "WRITE", "WRITE", "CREATE TABLE"]


@pytest.mark.long
def test_commit_whose_answer_is_lost_is_recognized(open_lake: Callable[..., Lake], proxy: DisturbedS3, s3: EmbeddedS3) -> None:
    lake = open_lake("append")
    lake.write()
    version = DeltaTable(lake.path, storage_options=s3.storage_options).version()
    proxy.lose_next_answer()
    lake.write()
    lake.check()
    assert DeltaTable(lake.path, storage_options=s3.storage_options).version() == version + 1


@pytest.mark.long
def test_store_that_ignores_the_condition_is_rejected(open_lake: Callable[..., Lake], proxy: DisturbedS3) -> None:
    lake = open_lake("append")
    proxy.ignores_condition = True
    lake.refuses(ConnectError, r"table t at s3a://.*ignores the condition If-None-Match of a PUT; use another store")


@pytest.mark.long
def test_failing_store_is_reported_with_the_remedy_and_nothing_is_lost(
    open_lake: Callable[..., Lake], proxy: DisturbedS3, s3: EmbeddedS3
) -> None:
    lake = open_lake("append")
    lake.write()
    s3.check_credentials()
    lake.refuses(ConnectError, r"table t at s3a://.*check the credentials .* restart the task")
    s3.accept_credentials()
    lake.restarted_writes_all()
    proxy.is_down = True
    lake.refuses(RetriableError, r"table t at s3a://")
    proxy.is_down = False
    lake.restarted_writes_all()


@pytest.mark.long
def test_upsert_table_is_compacted_checkpointed_and_vacuumed(
    open_lake: Callable[..., Lake], s3: EmbeddedS3, no_maintenance_thread: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_CHECKPOINT_COMMITS", 2)
    lake = open_lake("upsert", **{"compaction.min.files": "2", "vacuum.interval.ms": "1"})
    for _ in range(3):
        lake.write()
    task = lake.task_run.task
    task.sink.tables.writer("t").maintain(lambda: False)
    assert task.progress()["tables"]["t"]["files"] == 1
    lake.write()
    lake.check()
    log = fs.FileSelector(f"{lake.path.removeprefix('s3a://')}/_delta_log")
    names = {info.base_name for info in s3.open_files().get_file_info(log)}
    assert {"_last_checkpoint", "_last_vacuum_info"} <= names


class OtherWriter:
    """Another worker with the same connector, or another executor of the same one: a process with its own Spark, or with that of
    this process. It knows the first records of the topic."""

    def __init__(
        self, lake: Lake, mode: str, *, crash_at: str = "", stops: bool = False, shares_spark: bool = False
    ) -> None:  # fmt: skip
        arguments = [json.dumps(lake.props), mode, lake.location, "stop" if stops else ""]
        environment = {**os.environ, "SLUICE_CRASH_AT": crash_at}
        scope = executor_scope() if shares_spark else None
        if scope is not None:
            environment[VARIABLE] = f"{os.getpid()}:{scope.descriptor}:{scope.id}"
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OTHER_WRITER, *arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=() if scope is None else (scope.descriptor,),
        )

    def wait_until_it_stops(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "stopping\n"
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self) -> str:
        """Resumes it; returns what it says at its end."""
        self.process.send_signal(signal.SIGCONT)
        return self.process.communicate(timeout=120)[0]

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


_OTHER_WRITER = """
import json, os, signal, sys
from connect import crash_points
from tests.integration.spark.conftest import Run, Topic
from tests.integration.spark.lake import Lake

props, mode, location, stops = json.loads(sys.argv[1]), *sys.argv[2:]

def stop(name):
    if name == "spark.staged":
        crash_points.point = point
        print("stopping", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)

point = crash_points.point
if stops:
    crash_points.point = stop
lake = Lake(Run, Topic, props, mode, location)
lake.write()
lake.write()
print(lake.task_run.task.progress()["tables"]["t"]["rows"])
lake.close()
"""


@pytest.mark.long
def test_process_that_is_stopped_before_its_put_overwrites_nothing(open_lake: Callable[..., Lake]) -> None:
    lake = open_lake("upsert")
    lake.write()
    zombie = OtherWriter(lake, "upsert", stops=True)
    try:
        zombie.wait_until_it_stops()
        lake.write()
        lake.write()
        assert zombie.resume() == "0\n"
    finally:
        zombie.end()
    lake.check()
    lake.restarted_writes_all()


@pytest.mark.parametrize("dies", first_fast(["executor", "worker"]))
def test_crash_after_a_commit_neither_loses_nor_repeats_records(open_lake: Callable[..., Lake], dies: str) -> None:
    lake = open_lake("append")
    lake.write()
    crashed = OtherWriter(lake, "append", crash_at="spark.committed", shares_spark=dies == "executor")
    try:
        assert crashed.process.wait(120) == -signal.SIGKILL
    finally:
        crashed.end()
    lake.stop()
    lake.write()
    lake.check()


def test_own_tables_are_found_without_spark(s3: EmbeddedS3, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name, connector in (("own", "c"), ("other", "d"), ("damaged", "d")):
        table = FakeDelta(tmp_path / name).open(connector)
        table.load([TP])
        table.append(rows(1, 2), offsets(0, 2))
    for path in (tmp_path / "damaged" / "_delta_log").iterdir():
        path.write_text("{")
    location = f"{s3.create_bucket()}/lake"
    fs.copy_files(str(tmp_path), location, destination_filesystem=s3.open_files())
    props = {"name": "c", "topics": "t", "table.location": f"s3a://{location}", "table.name.format": "${table}"}
    lease: Any = None  # Spark is not asked
    assert find_own_tables(parse_config({**props, **s3_props(s3.endpoint)}), lease) == ["own"]
    (warning,) = caplog.messages
    assert warning.startswith(f"Table damaged at s3a://{location}/damaged is skipped")
