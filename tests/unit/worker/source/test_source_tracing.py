"""Traces of a source task: spans per batch, and their context in the headers of records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from connect import ConfigDef, ConnectRecord, SourceRecord
from connect.converters.simple_header import SimpleHeaderConverter
from connect.data.headers import Headers
from connect.trace_context import parse_traceparent
from connect.tracing import trace_of_thread
from connect.transforms.api import Transformation
from connect.transforms.chain import Step
from tests.support.traces import MemoryTraces, attributes, identity, linked
from tests.unit.worker.source.source_rig import FakeQueue, Rig, records
from worker.config.secrets import SecretMask
from worker.kafka.record_producer import ProducerRun
from worker.source.at_least_once import AtLeastOnceDelivery
from worker.source.runtime import FlushTiming
from worker.source.sender import RecordSender
from worker.source.tracing import SourceTracing
from worker.tasks.transformation_chain import TransformationChain

OWN = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"


class WithoutHeaders(Transformation):
    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def configure(self, settings: Mapping[str, str]) -> None: ...

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        record.headers = None
        return record


class Traced(Rig):
    """A delivery at least once whose produced headers are recorded."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces, *, drops_headers: bool = True, **options: Any
    ) -> None:
        super().__init__(monkeypatch, trace=traces.trace, **options)
        if drops_headers:
            object.__setattr__(self.runtime, "chain", TransformationChain([Step("drop", WithoutHeaders(), None, False)]))
        self.headers: list[dict[str, bytes | None]] = []
        produce = self.client.produce

        def recording(topic: str, value: bytes, key: bytes | None, *rest: Any) -> None:
            self.headers.append(dict(rest[4]) if len(rest) > 4 and rest[4] else {})
            produce(topic, value, key, *rest[:2])

        monkeypatch.setattr(self.client, "produce", recording)
        sender = RecordSender(self.handle, self.runtime, lambda record, metadata: None)
        timing = FlushTiming(60.0, 0.01, 0.01)
        self.delivery = AtLeastOnceDelivery(self.handle, self.task, sender, self.producer, self.errors, self.store, timing)
        self.delivery.start()

    def send(self, batch: Sequence[SourceRecord]) -> None:
        """Sends a batch as the task's loop does."""
        trace = self.handle.trace
        assert trace is not None
        with trace_of_thread(trace), trace.batch("source batch", "poll", len(batch), 1):
            self.delivery.send(batch)


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> MemoryTraces:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    return MemoryTraces()


def test_records_name_the_span_that_sends_them_although_the_chain_drops_headers(
    monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces
) -> None:
    rig = Traced(monkeypatch, traces)
    rig.send(records(1, 2))
    rig.send(records(3))
    first, second, third = (parse_traceparent(headers["traceparent"] or b"") for headers in rig.headers)
    assert first == second != third
    spans = traces.spans()
    assert [span.name for span in spans] == ["poll", "transform", "convert", "send", "source batch"] * 2
    send, batch = spans[3], spans[4]
    assert first is not None
    assert (first.trace_id, first.span_id) == identity(send)
    assert send.kind is SpanKind.PRODUCER
    assert {identity(span)[0] for span in spans[:5]} == {first.trace_id}
    assert batch.parent is None
    assert batch.start_time == 1
    assert {span.parent.span_id for span in spans[:4] if span.parent} == {identity(batch)[1]}


def test_offset_flush_links_to_the_spans_that_have_sent_the_records(
    monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces
) -> None:
    rig = Traced(monkeypatch, traces)
    rig.send(records(1))
    rig.send(records(2))
    rig.delivery.flush()  # nothing is acknowledged
    rig.client.acknowledge()
    rig.delivery.flush()
    rig.delivery.flush()  # nothing to store
    assert rig.store.stored == {"p": 2}
    spans = traces.spans()
    sent = [identity(span) for span in spans if span.name == "send"]
    failed, stored = (span for span in spans if span.name == "flush offsets")
    assert linked(failed) == linked(stored) == sent
    assert failed.status.status_code is StatusCode.ERROR
    assert stored.status.status_code is StatusCode.UNSET
    assert [span.name for span in spans].count("wait for acknowledgments") == 2


def test_context_that_the_connector_set_is_never_overwritten() -> None:
    traces = MemoryTraces()
    tracing = SourceTracing(traces.trace, SimpleHeaderConverter())
    own: list[tuple[str, bytes | None]] = [("traceparent", OWN.encode())]
    run = ProducerRun("t", [None] * 3, [b"1", b"2", b"3"], headers=[own, None, [("x", b"y")]])
    with tracing.sending(3):
        headers = tracing.add_context(run).headers
    assert headers is not None
    assert headers[0] == own
    (send,) = traces.spans()
    for names, found in ((["traceparent"], headers[1]), (["x", "traceparent"], headers[2])):
        assert found is not None
        assert [name for name, _ in found] == names
        link = parse_traceparent(found[-1][1] or b"")
        assert link is not None
        assert (link.trace_id, link.span_id) == identity(send)
    assert run.headers == [own, None, [("x", b"y")]]


def test_records_of_unsampled_traces_get_no_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    traces = MemoryTraces()
    rig = Traced(monkeypatch, traces)
    rig.send(records(1))
    assert rig.headers == [{}]
    assert traces.spans() == []


def test_header_converter_that_fails_does_not_fail_the_task(
    monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> bytes:
        raise ValueError("no headers here")

    monkeypatch.setattr(SimpleHeaderConverter, "from_connect_header", refuse)
    rig = Traced(monkeypatch, traces)
    rig.send(records(1))
    rig.send(records(2))
    assert rig.headers == [{}, {}]
    assert caplog.text.count("Records get no header traceparent") == 1
    assert len(traces.spans()) == 10


def test_records_sent_one_by_one_name_the_span(monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces) -> None:
    rig = Traced(monkeypatch, traces, confirms_each=True)
    rig.send(records(1, 2))
    sent = [parse_traceparent(headers["traceparent"] or b"") for headers in rig.headers]
    send = traces.named()["send"]
    assert [(link.trace_id, link.span_id) for link in sent if link is not None] == [identity(send)] * 2


def test_dead_letters_have_the_context_and_the_span_has_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = SecretMask()
    mask.learn(["refused"])
    traces, queue = MemoryTraces(mask), FakeQueue()
    rig = Traced(monkeypatch, traces, drops_headers=False, tolerant=True, queue=queue)
    good, bad = records(1), SourceRecord({"file": "p"}, {"n": 2}, "t", value="bad")
    own = SourceRecord({"file": "p"}, {"n": 3}, "t", value="bad", headers=Headers().add("traceparent", OWN))
    rig.send([*good, bad, own])
    batch = traces.named()["source batch"]
    first, second = queue.headers
    link = parse_traceparent(first["traceparent"])
    assert link is not None
    assert link.trace_id == identity(batch)[0]
    assert second["traceparent"] == OWN.encode()
    assert first["__connect.errors.stage"] == b"VALUE_CONVERTER"
    events = attributes(batch.events)
    assert len(events) == 2
    assert "[hidden]" in events[0]["exception.stacktrace"]
    assert "refused" not in batch.to_json()
