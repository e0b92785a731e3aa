"""Spans of table commits link to the puts whose records they contain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from connect.errors import ConnectError
from connect.tracing import SpanLink, trace_of_thread
from connectors.spark.decode.tolerant_decoding import DecodedTopic
from connectors.spark.delivery.segment import Arrival, Segment
from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.delivery.timing import CommitTiming
from tests.support.traces import MemoryTraces, identity, linked
from tests.unit.connectors.spark.delivery.fakes import FakeTables, changes
from tests.unit.connectors.spark.delivery.test_receiver import P0, Rig


class LinkedRig(Rig):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[Any] = []

    def _deliver(self, decoded: Sequence[DecodedTopic], arrival: Arrival) -> None:
        super()._deliver(decoded, arrival)
        self.links.append(arrival.links)


def test_records_that_are_decoded_together_keep_the_spans_of_their_puts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_TRACES_SAMPLER", raising=False)
    traces, rig = MemoryTraces(), LinkedRig()
    with trace_of_thread(traces.trace):
        for offset in (1, 2):
            with traces.trace.span("put", is_root=True):
                rig.put_raw(offset)
        rig.receiver.decode_all()
    assert [[(link.trace_id, link.span_id) for link in links] for links in rig.links] == [[identity(s) for s in traces.spans()]]


def test_table_commit_is_a_trace_that_links_to_its_puts_and_has_its_error() -> None:
    traces, tables = MemoryTraces(), FakeTables()
    table = TableQueue("orders", CommitTiming(1.0, 1.0), tables.open, traces.trace)
    for offset in (5, 6):
        table.add(Segment([offset], Arrival(0, 1, (SpanLink(1, offset),)), [changes([offset])]))
    tables["orders"].errors = [ConnectError("no space left"), None]
    for _ in range(2):
        table.start(100, 1 << 30)
        if table.commit({P0}, time.monotonic).error is not None:
            table.repeat()
    failed, commit = traces.spans()
    assert commit.name == "table commit"
    assert dict(commit.attributes or {}) == {"sluice.table": "orders", "sluice.records": 2}
    assert linked(failed) == linked(commit) == [(1, 5), (1, 6)]
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "no space left")
    assert commit.status.status_code is StatusCode.UNSET
