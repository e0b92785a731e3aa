"""Scheduled verifications whose database is unreachable, and those that are interrupted by a change of the connector."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from connect.errors import ConnectError
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.worker_process import WorkerProcess
from tests.integration.verify.pipeline import jdbc_sink_config, run_pipeline, source_config
from tests.integration.verify.scheduled_runs import (
    has_ended,
    last_ms,
    problems,
    shown,
    verification_metrics,
    verification_processes,
    wait_for,
    wait_for_failure,
)
from tests.support.waiting import eventually

ROWS = 20
INTERVAL = "5000"


@pytest.fixture
def origin(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A server of its own for the source, which the test stops."""
    server = EmbeddedPostgres(tmp_path / "origin", dies_with_parent=True)
    server.start()
    server.create_database("origin")
    yield server
    server.remove()


@pytest.mark.timeout(600)
@pytest.mark.long
def test_failure_is_shown_beside_the_last_result_until_the_database_is_back(
    broker: EmbeddedBroker, postgres: EmbeddedPostgres, origin: EmbeddedPostgres, database: str, tmp_path: Path,
    unique_name: Callable[[str], str],
) -> None:  # fmt: skip
    prefix = unique_name("verify")
    values = tmp_path / "values.properties"
    values.write_text(f"interval={INTERVAL}\n")
    providers = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    source = {**source_config(origin, "origin", prefix), "slot.drop.on.stop": "false"}
    with run_pipeline(broker, origin.dsn("origin"), tmp_path, ROWS, providers) as pipeline:
        worker = pipeline.worker
        pipeline.put(
            "sink", jdbc_sink_config(postgres, database, prefix) | {"verify.interval.ms": f"${{file:{values}:interval}}"}
        )
        pipeline.start(source)
        found = wait_for(worker, 0, equal=True, rows=ROWS)
        assert found["schedule"]["interval_ms"] == int(INTERVAL), "the value of the provider is shown"
        assert worker.client.config("sink")["verify.interval.ms"] == f"${{file:{values}:interval}}"

        origin.stop()
        found = wait_for_failure(worker, f"comparing sink with source: cannot reach PostgreSQL at {origin.host}:{origin.port}")
        schedule = found["schedule"]
        assert (found["equal"], found["rows"], schedule["worker_id"]) == (True, ROWS, worker.worker_id)
        assert schedule["failing_since_ms"] <= schedule["last_ms"] < schedule["next_ms"]
        metrics = verification_metrics(worker)
        assert (metrics["last_run_failed", "sink"], metrics["equal", "sink"], metrics["interval_seconds", "sink"]) == (1, 1, 5)
        problem = problems(worker)["verification-failed"]
        assert f"on worker {worker.worker_id}, failed: comparing sink with source: cannot reach" in problem["message"]
        assert (
            "WARNING [sink|worker] The scheduled verification of connector sink failed; the next one is due in"
            in worker.log_tail()
        )

        origin.start()
        found = wait_for(worker, last_ms(worker), equal=True)
        eventually(lambda: shown(worker)["schedule"]["error"] is None, "a run without an error", lambda: shown(worker))
        assert verification_metrics(worker)["last_run_failed", "sink"] == 0
        assert "verification-failed" not in problems(worker)

        role, password = sql.SQL("ALTER ROLE {} PASSWORD {}"), sql.Literal(origin.password)
        with origin.connect("origin") as connection:
            connection.execute(role.format(sql.Identifier(origin.user), sql.Literal("another")))
            wait_for_failure(worker, f"rejected the password of user {origin.user}")
            connection.execute(role.format(sql.Identifier(origin.user), password))
            eventually(lambda: shown(worker)["schedule"]["error"] is None, "a run without an error", lambda: shown(worker))

            connection.execute("ALTER TABLE items RENAME TO others")
            wait_for_failure(worker, "source captures no table that its database has: check its table.include.list")
            connection.execute("ALTER TABLE others RENAME TO items")
            eventually(lambda: shown(worker)["schedule"]["error"] is None, "a run without an error", lambda: shown(worker))

        with postgres.connect(database) as connection:
            connection.execute("ALTER TABLE items RENAME TO others")
            wait_for(worker, last_ms(worker), equal=False, differences=ROWS)
            assert "the target has no table items" in problems(worker)["tables-differ"]["message"]
            connection.execute("ALTER TABLE others RENAME TO items")
            wait_for(worker, last_ms(worker), equal=True)
        worker.client.delete("source")  # while its database is there


class Blocked:
    """A standalone worker whose verifications wait for a table that a test has locked."""

    def __init__(self, worker: WorkerProcess, database: str) -> None:
        self.worker = worker
        self._database = database

    @contextmanager
    def run(self) -> Iterator[psutil.Process]:
        """Yields the process of a verification that cannot end."""
        with psycopg.connect(self._database) as locking, psycopg.connect(self._database, autocommit=True) as watching:
            locking.execute("LOCK TABLE items IN ACCESS EXCLUSIVE MODE")
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'items'::regclass"

            def is_waiting() -> bool:
                (count,) = watching.execute(waits).fetchone() or (0,)
                return bool(count and verification_processes(self.worker))

            eventually(is_waiting, "a run that waits", self.worker.log_tail)
            (process,) = verification_processes(self.worker)
            yield process

    def stored(self) -> set[str]:
        """Returns the connectors with a stored result."""
        file = self.worker.home / "offsets.verifications"
        return set(json.loads(file.read_text())) if file.exists() else set()


def await_end(process: psutil.Process) -> None:
    eventually(lambda: has_ended(process), "the end of the run")


def active(worker: WorkerProcess) -> set[str]:
    """Returns the connectors with metrics of a schedule."""
    return {connector for metric, connector in verification_metrics(worker) if metric == "interval_seconds"}


@pytest.mark.timeout(600)
@pytest.mark.long
def test_change_of_the_connector_ends_the_run_and_what_is_shown_of_it(
    broker: EmbeddedBroker, postgres: EmbeddedPostgres, database: str, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    prefix, copy = unique_name("verify"), unique_name("copy")
    postgres.create_database(copy)
    config = jdbc_sink_config(postgres, copy, prefix) | {"verify.interval.ms": INTERVAL}
    try:
        with run_pipeline(broker, postgres.dsn(database), tmp_path, ROWS) as pipeline:
            worker = pipeline.worker
            client, blocked = worker.client, Blocked(worker, postgres.dsn(database))
            with pytest.raises(ConnectError, match=r"Invalid value 4999 for configuration .*: Value must be at least 5000"):
                pipeline.put("sink", config | {"verify.interval.ms": "4999"})
            pipeline.put("sink", config)
            pipeline.start(source_config(postgres, database, prefix))
            wait_for(worker, 0, equal=True)

            with blocked.run() as process:
                assert active(worker) == {"sink"}
                client.patch_config("sink", {"verify.interval.ms": None})
                await_end(process)
                assert (active(worker), shown(worker)["schedule"]) == (set(), None)
            client.patch_config("sink", {"verify.interval.ms": INTERVAL})

            with blocked.run() as process:
                client.stop("sink")
                await_end(process)
                eventually(lambda: not active(worker), "the end of the metrics")
                schedule = shown(worker)["schedule"]
                assert (schedule["paused"], schedule["next_ms"]) == (True, None)
            client.resume("sink")

            assert blocked.stored() == {"sink", "source"}
            with blocked.run() as process:
                client.delete("sink")  # under another name
                client.put_config("renamed", config)
                await_end(process)
                assert shown(worker) == {}
                assert active(worker) == {"renamed"}
                assert ("equal", "sink") not in verification_metrics(worker)
                assert blocked.stored() == {"source"}
            wait_for(worker, 0, "renamed", equal=True)

            with blocked.run() as process:
                worker.kill()
                await_end(process)  # with its worker
            before_ms = json.loads((tmp_path / "offsets.verifications").read_text())["renamed"]["attempt"]["ended_ms"]
            worker.start()
            worker.wait_until_up()
            client.put_config("renamed", config)
            pipeline.start(source_config(postgres, database, prefix))
            wait_for(worker, before_ms, "renamed", equal=True)
            client.delete("renamed")
            assert blocked.stored() == {"source"}
            assert verification_metrics(worker) == {}
    finally:
        postgres.drop_database(copy)
