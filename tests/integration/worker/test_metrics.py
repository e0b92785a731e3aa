"""``GET /metrics`` and the probes of a worker with executor processes and a real broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from rest.rest_server import RestServer
from rest.server.listeners import ListenSettings
from tests.integration.worker.conftest import StartWorker, Worker
from tests.support.waiting import eventually
from worker.model import State

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@pytest.fixture
def pipeline(start_worker: StartWorker, tmp_path: Path, unique_name: Callable[[str], str]) -> Iterator[tuple[Worker, str]]:
    """A worker with a source and a sink of 1,000 lines, and the URL of its REST server."""
    topic = unique_name("lines")
    (tmp_path / "in.txt").write_text("".join(f"line {n}\n" for n in range(1000)))
    worker = start_worker(task_executors="2")
    server = RestServer.bind(ListenSettings(("http://127.0.0.1:0",)))
    server.start(worker.herder)
    transform = "org.apache.kafka.connect.transforms.HoistField$Value"
    chain = {"transforms": "pass", "transforms.pass.type": transform, "transforms.pass.field": "x"}
    never = {
        "predicates": "none",
        "predicates.none.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
        "transforms.pass.predicate": "none",
    }
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
    worker.create("source", {"name": "source", "tasks.max": "1", **source, **chain, **never})
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic}
    worker.create("sink", {"name": "sink", "tasks.max": "1", **sink})
    worker.herder.started()
    try:
        yield worker, server.url
    finally:
        server.stop()


def scrape(url: str) -> dict[str, Metric]:
    response = httpx.get(f"{url}metrics", headers={"Accept": OPEN_METRICS})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    return {family.name: family for family in parse_open_metrics(response.text)}


def value(families: dict[str, Metric], sample: str, **labels: str) -> float | None:
    found: Iterable[float] = (
        one.value
        for family in families.values()
        for one in family.samples
        if one.name == sample and labels.items() <= one.labels.items()
    )
    return next(iter(found), None)


def test_figures_of_tasks_in_executor_processes_are_exported(pipeline: tuple[Worker, str]) -> None:
    worker, url = pipeline
    source, sink = {"connector": "source", "task": "0"}, {"connector": "sink", "task": "0"}

    def all_is_committed() -> bool:
        found = scrape(url)
        return (
            value(found, "kafka_connect_sink_task_sink_record_send_total", **sink) == 1000
            and value(found, "kafka_connect_sink_task_sink_record_active_count", **sink) == 0
            and (value(found, "sluice_offset_commit_seconds_count", **source) or 0) > 0
        )

    eventually(all_is_committed, "1,000 records, committed", explain=lambda: httpx.get(f"{url}metrics").text)
    found = scrape(url)
    assert value(found, "kafka_connect_source_task_source_record_poll_total", **source) == 1000
    assert value(found, "kafka_connect_source_task_source_record_write_total", **source) == 1000
    assert value(found, "kafka_connect_source_task_source_record_active_count", **source) == 0
    assert (value(found, "sluice_source_poll_seconds_count", **source) or 0) > 0
    assert value(found, "kafka_connect_sink_task_sink_record_read_total", **sink) == 1000
    assert value(found, "kafka_connect_sink_task_partition_count", **sink) == 1
    assert (value(found, "kafka_connect_sink_task_offset_commit_completion_total", **sink) or 0) > 0
    assert value(found, "sluice_sink_lag_records", **sink, partition="0") == 0
    assert value(found, "kafka_connect_connector_status", **sink, status="running") == 1
    assert value(found, "sluice_connector_status", connector="source", status="running") == 1
    assert value(found, "kafka_connect_worker_connector_running_task_count", connector="sink") == 1
    assert value(found, "kafka_connect_worker_task_startup_success_total") == 2
    assert value(found, "kafka_connect_connector_transform_info", **source, transform="pass") == 1
    assert value(found, "kafka_connect_connector_predicate_info", **source, predicate="none") == 1
    key_converter = "org.apache.kafka.connect.storage.StringConverter"
    assert value(found, "kafka_connect_connector_task_info", **source, key_converter_class=key_converter) == 1
    assert value(found, "sluice_executor_up", process="shared-1") == 1
    assert (value(found, "sluice_process_resident_memory_bytes", process="shared-1") or 0) > 10_000_000
    # The older format has the same families.
    text = httpx.get(f"{url}metrics", headers={"Accept": "text/plain"}).text
    assert {family.name for family in parse_text(text)} == set(found)

    worker.herder.restart_connector("sink", include_tasks=True, only_failed=False)
    eventually(lambda: value(scrape(url), "sluice_task_restarts_total", **sink) == 1, "a restart", explain=lambda: str(found))


@pytest.mark.long
def test_probes_report_a_worker_that_is_ready(pipeline: tuple[Worker, str]) -> None:
    worker, url = pipeline
    worker.wait_for("sink", State.RUNNING)
    assert httpx.get(f"{url}health/live").json() == {
        "status": "live",
        "checks": {"herder": {"ok": True, "message": "responds"}},
    }
    ready = httpx.get(f"{url}health/ready")
    assert ready.status_code == 200
    assert ready.json()["checks"]["broker"] == {"ok": True, "message": "answers"}
