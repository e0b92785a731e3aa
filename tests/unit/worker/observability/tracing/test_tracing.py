"""What leaves the process: spans with their resource, errors, and masked secrets (promise 9)."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode

from connect.errors import ConnectError
from connect.tracing import MAX_LINKS, SpanLink, SpanRole, current_trace, trace_of_thread, traced
from tests.support.span_collector import SpanCollector
from tests.support.traces import MemoryTraces, attributes, identity
from tests.support.waiting import WAIT_S
from worker.config.secrets import SecretMask
from worker.model import TaskId, TaskStopped
from worker.observability.log_setup import LogFormat, set_log_format
from worker.observability.tracing.lazy_exporter import LazyExporter
from worker.observability.tracing.tracing import Tracing, create_exporter

SECRET = "hunter-2-secret"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_SAMPLER", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


def test_spans_name_service_worker_connector_and_task() -> None:
    traces = MemoryTraces()
    with traced(traces.trace, "load", {"rows": 3}, [SpanLink(7, 8)] * 100, role=SpanRole.CONSUMER) as outer:
        assert outer is not None
        outer.set_attribute("more", True)
        with traces.trace.span("inner"):
            pass
        with traces.trace.span("apart", is_root=True):
            pass
    inner, apart, load = traces.spans()
    found = load.resource.attributes
    assert {name: found[name] for name in ("service.name", "sluice.worker", "sluice.connector", "sluice.task")} == {
        "service.name": "sluice",
        "sluice.worker": "w:8083",
        "sluice.connector": "c",
        "sluice.task": 0,
    }
    assert dict(load.attributes or {}) == {"rows": 3, "more": True}
    assert load.kind is SpanKind.CONSUMER
    assert len(load.links) == MAX_LINKS
    assert load.parent is None
    assert inner.parent is not None
    assert (inner.parent.trace_id, inner.parent.span_id) == identity(load)
    assert apart.parent is None
    assert identity(apart)[0] != identity(load)[0]


def test_environment_names_the_service_and_decides_what_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "orders")
    traces = MemoryTraces()
    with traces.trace.span("one"):
        pass
    assert traces.spans()[0].resource.attributes["service.name"] == "orders"
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
    traces = MemoryTraces()
    with traces.trace.span("one"):
        assert traces.trace.active() is None
    assert traces.spans() == []


def test_secrets_are_masked_wherever_they_are_in_a_span() -> None:
    mask = SecretMask()
    traces = MemoryTraces(mask)
    with traces.trace.span(f"load {SECRET}", {"url": f"x?{SECRET}"}) as span:
        span.set_attribute("statement", f"SET x = '{SECRET}'")
        traces.trace.record_error(ValueError(f"skipped {SECRET}"))
        mask.learn([SECRET])  # a secret may become known late
        try:
            raise ConnectError(f"rejected {SECRET}")
        except ConnectError as e:
            span.fail(e)
    (found,) = traces.spans()
    assert SECRET not in found.to_json()
    assert "[hidden]" in found.name
    assert found.status.status_code is StatusCode.ERROR
    assert found.status.description == "rejected [hidden]"
    skipped, failed = attributes(found.events)
    assert skipped["exception.message"] == "ValueError: skipped [hidden]"
    assert failed["exception.type"] == "connect.errors.ConnectError"
    assert "Traceback" in failed["exception.stacktrace"]


def test_shortened_texts_contain_no_part_of_a_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20")
    mask = SecretMask()
    mask.learn([SECRET])
    traces = MemoryTraces(mask)
    with pytest.raises(ConnectError), traces.trace.span("load"):
        raise ConnectError(f"rejected {SECRET}")
    assert SECRET[:6] not in traces.spans()[0].to_json()


def test_request_headers_of_the_exporter_are_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20c2VjcmV0,x-team=blue-team-key")
    mask = SecretMask()
    exporter = create_exporter("otlp", mask)
    assert exporter is not None
    exporter.shutdown()
    assert mask.mask("sent Basic c2VjcmV0 and blue-team-key") == "sent [hidden] and [hidden]"


def test_task_that_must_stop_is_no_error() -> None:
    traces = MemoryTraces()
    with pytest.raises(TaskStopped), traces.trace.span("send"):
        raise TaskStopped
    assert traces.spans()[0].status.status_code is StatusCode.UNSET


def test_trace_of_a_thread_is_that_of_its_task() -> None:
    traces = MemoryTraces()
    with trace_of_thread(traces.trace):
        assert current_trace() is traces.trace
        others: list[object] = []
        thread = threading.Thread(target=lambda: others.append(current_trace()))
        thread.start()
        thread.join()
        assert others == [None]
    assert current_trace() is None
    traces.spans()


def test_json_log_lines_name_the_active_span() -> None:
    traces, written = MemoryTraces(), io.StringIO()
    handler = logging.StreamHandler(written)
    set_log_format(handler, SecretMask(), LogFormat.JSON)
    record = logging.LogRecord("test", logging.INFO, "x.py", 1, "loaded", None, None)
    handler.emit(record)
    with traces.trace.span("load"):
        handler.emit(record)
    before, during = (json.loads(line) for line in written.getvalue().splitlines())
    assert not {"trace_id", "span_id"} & before.keys()
    assert (int(during["trace_id"], 16), int(during["span_id"], 16)) == identity(traces.spans()[0])


class HangingExporter(SpanExporter):
    def __init__(self) -> None:
        self.has_begun, self.is_shut_down = threading.Event(), threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.has_begun.set()
        assert self.is_shut_down.wait(WAIT_S)
        return SpanExportResult.FAILURE

    def shutdown(self) -> None:
        self.is_shut_down.set()


def test_collector_that_does_not_respond_does_not_delay_the_end() -> None:
    exporter = HangingExporter()
    tracing = Tracing("w", SecretMask(), exporter)
    with tracing.trace(TaskId("c", 0)).span("one"):
        pass
    tracing.close(0.01)
    assert exporter.is_shut_down.is_set()
    assert not any(thread.name == "traces-close" for thread in threading.enumerate())


def test_spans_of_libraries_are_exported_and_masked_too() -> None:
    # In a process of its own: OpenTelemetry's provider can be set only once.
    code = (
        "from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter\n"
        "from opentelemetry.trace import get_tracer\n"
        "from worker.config.secrets import SecretMask\n"
        "from worker.observability.tracing.tracing import Tracing\n"
        "exporter = InMemorySpanExporter()\n"
        "tracing = Tracing('w', SecretMask(), exporter)\n"
        "tracing.install()\n"
        "get_tracer('driver').start_span('SELECT', attributes={'db.statement': 'password=abc'}).end()\n"
        "tracing.close(120)\n"
        "(span,) = exporter.get_finished_spans()\n"
        "print(span.resource.attributes['sluice.worker'], span.attributes['db.statement'])\n"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S, capture_output=True, text=True)
    assert found.stdout == "w password=[hidden]\n"


def test_libraries_for_otlp_are_imported_with_the_first_spans() -> None:
    code = (
        "import sys\n"
        "from worker.config.secrets import SecretMask\n"
        "from worker.model import TaskId\n"
        "from worker.observability.tracing.tracing import Tracing, create_exporter\n"
        "mask = SecretMask()\n"
        "tracing = Tracing('w', mask, create_exporter('otlp', mask))\n"
        "trace = tracing.trace(TaskId('c', 0))\n"
        "before = {'requests', 'google.protobuf'} & sys.modules.keys()\n"
        "with trace.span('one'):\n"
        "    pass\n"
        "tracing.close(120)\n"
        "print(before, trace.active())\n"
    )
    collector = SpanCollector()
    environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    try:
        found = subprocess.run(
            [sys.executable, "-c", code], check=True, timeout=WAIT_S, capture_output=True, text=True, env=environment
        )
        assert found.stdout == "set() None\n"
        assert len(collector.named("c", "one")) == 1
    finally:
        collector.close()


def test_lazy_exporter_that_was_shut_down_creates_nothing() -> None:
    exporter = LazyExporter(HangingExporter)
    assert exporter.force_flush()
    exporter.shutdown()
    assert exporter.export([]) is SpanExportResult.FAILURE


def test_lazy_exporter_ends_the_exporter_that_it_has_created() -> None:
    created = HangingExporter()
    exporter = LazyExporter(lambda: created)
    thread = threading.Thread(target=exporter.export, args=([],))
    thread.start()
    assert created.has_begun.wait(WAIT_S)
    exporter.shutdown()
    thread.join(WAIT_S)
    assert not thread.is_alive()
