"""Traces of a source and a sink in an executor process, as a collector receives them over OTLP/HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect.trace_context import parse_traceparent
from tests.integration.worker.conftest import StartWorker
from tests.support.span_collector import SpanCollector
from tests.support.waiting import WAIT_S, eventually

SECRET = "planted-4711-secret"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[SpanCollector]:
    collector = SpanCollector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
    yield collector
    collector.close()


def test_put_of_the_sink_links_to_send_of_the_source_and_no_secret_leaves(
    collector: SpanCollector, start_worker: StartWorker, tmp_path: Path, unique_name: Callable[[str], str]
) -> None:
    topic = unique_name("traced")
    (tmp_path / "in.txt").write_text(f"1\n2\n{SECRET}\n3\n")
    worker = start_worker(task_executors="1", tracing_enabled="true")
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": topic}
    worker.create("source", {"name": "source", "tasks.max": "1", **source})
    sink = {"connector.class": "FileStreamSink", "file": str(tmp_path / "out.txt"), "topics": topic}
    cast = {
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "int32",
        "errors.tolerance": "all",
        "api.password": SECRET,
    }
    worker.create("sink", {"name": "sink", "tasks.max": "1", **sink, **cast})
    worker.herder.started()

    def is_complete() -> bool:
        links = {link.span_id for put in collector.named("sink", "put") for link in put.links}
        return (
            {span.span_id for span in collector.named("source", "send")} == links
            and bool(collector.named("source", "flush offsets"))
            and bool(collector.named("sink", "commit"))
        )

    eventually(is_complete, "all spans", explain=lambda: str([(r["sluice.connector"], s.name) for r, s in collector.spans]))
    assert (tmp_path / "out.txt").read_text() == "1\n2\n3\n"

    send = collector.named("source", "send")[0]
    (put,) = (put for put in collector.named("sink", "put") if send.span_id in {link.span_id for link in put.links})
    assert {link.trace_id for link in put.links} <= {span.trace_id for span in collector.named("source", "source batch")}
    flushed = {link.span_id for flush in collector.named("source", "flush offsets") for link in flush.links}
    assert send.span_id in flushed
    assert collector.named("sink", "pre_commit")[0].parent_span_id == collector.named("sink", "commit")[0].span_id

    # The header is what other applications see.
    consumer = Consumer({"bootstrap.servers": worker.bootstrap, "group.id": topic, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    (message,) = consumer.consume(1, WAIT_S)
    consumer.close()
    header = parse_traceparent(dict(message.headers() or [])["traceparent"] or b"")
    assert header is not None
    assert header.span_id == int.from_bytes(send.span_id, "big")

    # Promise 9: the record with the secret failed, and its error is an event.
    events = [event for span in collector.named("sink", "transform") for event in span.events]
    messages = [one.value.string_value for event in events for one in event.attributes if one.key == "exception.message"]
    assert len(messages) == 1
    assert "[hidden]" in messages[0]
    assert SECRET.encode() not in collector.received
