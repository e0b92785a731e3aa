"""Traces of a sink task: links from put to those who wrote the records, and commits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from connect import ConnectError, RetriableError, TopicPartition
from connect.trace_context import format_traceparent
from connect.tracing import SpanLink
from tests.support.traces import MemoryTraces, identity, linked
from tests.unit.worker.kafka.fake_clients import FakeMessage
from tests.unit.worker.sink.sink_rig import P0, P1, Rig


class TracedMessage(FakeMessage):
    link: SpanLink

    def headers(self) -> Any:
        return [("traceparent", format_traceparent(self.link).encode())]


def messages(partition: TopicPartition, offsets: Collection[int], link: SpanLink) -> list[FakeMessage]:
    found: list[FakeMessage] = []
    for offset in offsets:
        message = TracedMessage(*partition, offset, None, str(offset).encode())
        object.__setattr__(message, "link", link)
        found.append(message)
    return found


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> MemoryTraces:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    return MemoryTraces()


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch, traces: MemoryTraces) -> Rig:
    rig = Rig(monkeypatch, trace=traces.trace)
    rig.client.group_offsets = {P0: 10, P1: 20}
    rig.assign(P0, P1)
    return rig


def test_put_links_to_each_span_that_wrote_records_of_its_batch(rig: Rig, traces: MemoryTraces) -> None:
    first, second = SpanLink(1, 2), SpanLink(3, 4)
    rig.iterate(*messages(P0, [10, 11], first), *messages(P1, [20], second))
    rig.iterate()  # a call of put without records has no span
    spans = traces.spans()
    assert [span.name for span in spans] == ["consume", "transform", "put", "sink batch"]
    put, batch = spans[2], spans[3]
    assert linked(put) == [(1, 2), (3, 4)]
    assert put.kind is SpanKind.CONSUMER
    assert put.attributes == {"messaging.batch.message_count": 3}
    assert put.parent is not None
    assert put.parent.span_id == identity(batch)[1]
    assert batch.parent is None


def test_undecoded_batches_are_linked_too(rig: Rig, traces: MemoryTraces) -> None:
    rig.loop.use_raw_batches()
    rig.iterate(*messages(P0, [10], SpanLink(1, 2)))
    assert linked(traces.named()["put"]) == [(1, 2)]


def test_repeated_put_links_to_the_same_spans(rig: Rig, traces: MemoryTraces) -> None:
    rig.task.put_errors = [RetriableError("later"), None]
    rig.iterate(*messages(P0, [10], SpanLink(1, 2)))
    rig.loop._delivery._retry_delay_s = 0
    rig.iterate()
    failed, put = (span for span in traces.spans() if span.name == "put")
    assert linked(failed) == linked(put) == [(1, 2)]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "later")
    assert put.status.status_code is StatusCode.UNSET


def test_commit_lasts_until_kafka_answers(rig: Rig, traces: MemoryTraces) -> None:
    rig.commit()  # nothing was delivered
    rig.iterate(*messages(P0, [10], SpanLink(1, 2)))
    rig.commit()
    rig.client.answer_commit()
    rig.iterate()
    found = [span for span in traces.spans() if span.name in ("commit", "pre_commit")]
    pre_commit, commit = found
    assert pre_commit.parent is not None
    assert pre_commit.parent.span_id == identity(commit)[1]
    assert commit.end_time is not None
    assert pre_commit.end_time is not None
    assert commit.end_time >= pre_commit.end_time
    assert commit.status.status_code is StatusCode.UNSET


def test_failed_pre_commit_fails_the_commit(rig: Rig, traces: MemoryTraces) -> None:
    rig.iterate(*messages(P0, [10], SpanLink(1, 2)))
    rig.task.returned = ConnectError("table is locked")
    rig.commit()
    found = traces.named()
    assert found["commit"].status.description == "table is locked"
    assert found["pre_commit"].status.status_code is StatusCode.ERROR


def test_revocation_without_anything_to_commit_has_no_trace(rig: Rig, traces: MemoryTraces) -> None:
    rig.loop.close()
    assert rig.events
    assert traces.spans() == []


def test_revocation_commits_in_a_trace_of_its_own(rig: Rig, traces: MemoryTraces) -> None:
    rig.iterate(*messages(P0, [10], SpanLink(1, 2)))
    rig.loop.close()
    found = traces.named()
    assert found["pre_commit"].parent is not None
    assert found["pre_commit"].parent.span_id == identity(found["commit"])[1]
