"""Workers verify a connector with ``verify.interval.ms``: one of them, in a process of its own, whoever runs the connector."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.cluster.cluster import Cluster
from tests.integration.verify.pipeline import TABLE, jdbc_sink_config, run_pipeline, source_config
from tests.integration.verify.scheduled_runs import (
    has_ended,
    last_ms,
    shown,
    verification_processes,
    wait_for,
    wait_for_run,
)
from tests.support.small_spark import delta_sink
from tests.support.waiting import WAIT_S, eventually

ROWS = 50


@pytest.mark.timeout(600)
@pytest.mark.long
def test_other_worker_continues_the_schedule_when_the_owner_is_killed(
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
) -> None:
    copy, prefix = unique_name("copy"), unique_name("verify")
    postgres.create_database(copy)
    with psycopg.connect(postgres.dsn(database), autocommit=True) as connection:
        connection.execute(TABLE.format(rows=ROWS))
    sink = jdbc_sink_config(postgres, copy, prefix) | {"verify.interval.ms": "5000"}
    try:
        with Cluster(broker, tmp_path, workers=2, properties={"offset.flush.interval.ms": "200"}) as cluster:
            cluster.start()
            first, second = cluster.workers
            first.client.put_config("source", source_config(postgres, database, prefix))
            first.client.wait_for("source", timeout_s=WAIT_S)
            first.client.put_config("sink", sink)
            first.client.wait_for("sink", timeout_s=WAIT_S)
            # A run that began before the snapshot was complete may have failed.
            for worker in cluster.workers:
                found = wait_for(worker, 0, equal=True)
                assert (found["rows"], found["schedule"]["interval_ms"], found["source"]) == (ROWS, 5000, "source")
            owner_id = first.client.status("sink")["connector"]["worker_id"]
            owner, other = (first, second) if owner_id == first.worker_id else (second, first)
            assert verification_processes(other) == []

            with psycopg.connect(postgres.dsn(copy), autocommit=True) as connection:
                connection.execute("DELETE FROM items WHERE id = 1")
            wait_for(other, last_ms(other), equal=False, differences=1)

            running = wait_for_run(owner)
            owner.kill()
            eventually(lambda: has_ended(running), "the end of the run")
            # Not before: the last result of the owner may arrive after its end.
            eventually(lambda: other.client.status("sink")["connector"]["worker_id"] == other.worker_id, "another owner")
            wait_for(other, last_ms(other), equal=False, differences=1)

            other.client.patch_config("sink", {"verify.source": "absent"})
            eventually(lambda: "absent" in str(shown(other).get("schedule")), "an error", other.log_tail)
            assert shown(other)["differences"] == 1, "the last result stays"

            other.client.patch_config("sink", {"verify.source": "source"})
            wait_for(other, last_ms(other), differences=1)
            wait_for_run(other)
            other.client.pause("sink")
            eventually(lambda: not verification_processes(other), "the end of the run that was paused")
            paused_ms = last_ms(other)
            other.client.resume("sink")
            wait_for(other, paused_ms)

            wait_for_run(other)
            for name in other.client.connectors():
                other.client.delete(name)
            cluster.stop(other)
            assert other.surviving_processes() == []
    finally:
        postgres.drop_database(copy)


@pytest.mark.timeout(300)
def test_standalone_worker_verifies_a_lake_table_and_remembers_it_after_a_restart(
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
) -> None:
    prefix = unique_name("verify")
    sink = delta_sink(tmp_path / "lake", f"{prefix}.public.items")
    with run_pipeline(broker, postgres.dsn(database), tmp_path, ROWS) as pipeline:
        worker = pipeline.worker
        pipeline.put("sink", sink)
        pipeline.start(source_config(postgres, database, prefix))
        pipeline.put("sink", {**sink, "verify.interval.ms": "5000"})
        found = wait_for(worker, 0, equal=True)
        assert found["rows"] == ROWS
        # The next run is due in a day, also for the worker that starts again.
        pipeline.put("sink", {**sink, "verify.interval.ms": "86400000"})
        eventually(lambda: not verification_processes(worker), "the end of the run that was in progress")
        stored = wait_for(worker, 0, equal=True)
        worker.client.delete("source")
        worker.stop()
        assert worker.surviving_processes() == []
        worker.start()
        worker.wait_until_up()
        pipeline.put("sink", {**sink, "verify.interval.ms": "86400000"})
        again = shown(worker)
        assert (again["stored_ms"], again["schedule"]) == (stored["stored_ms"], stored["schedule"])
        assert again["schedule"]["next_ms"] == again["schedule"]["last_ms"] + 86_400_000
