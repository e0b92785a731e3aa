"""Prometheus's text format and OpenMetrics, read by prometheus-client."""

from __future__ import annotations

import math

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from connect.metrics import Histogram, MetricKind
from worker.observability.metrics.exposition import Format, choose_format, render
from worker.observability.metrics.families import MetricFamily, counter, gauge, merged

AWKWARD = {"connector": 'a"b\\c\nd', "topic": "köln\ud800"}


def families() -> list[MetricFamily]:
    times = Histogram((0.1, 2.5))
    for seconds in (0.05, 0.1, 1.0, 9.0):
        times.observe(seconds)
    histogram = MetricFamily("x_seconds", MetricKind.HISTOGRAM, "Times.").add(times.figures(), {"task": "0"}).add(times.figures())
    return [
        counter("x_total", 'Has "quotes", a \\ and\na line end.').add(3, AWKWARD),
        gauge("x_bytes", "Sizes.").add(1.5).add(math.inf, {"a": "b"}).add(-math.inf, {"a": "c"}).add(math.nan, {"a": "d"}),
        gauge("empty", "Without samples."),
        histogram,
    ]


@pytest.mark.parametrize(("format", "parse"), [(Format.TEXT, parse_text), (Format.OPEN_METRICS, parse_open_metrics)])
def test_parsers_of_prometheus_read_the_page(format: Format, parse: object) -> None:
    page = render(families(), format).decode()
    found = {family.name: family for family in parse(page)}  # type: ignore[operator]
    assert {name: family.type for name, family in found.items()} == {"x": "counter", "x_bytes": "gauge", "x_seconds": "histogram"}
    (sample,) = found["x"].samples
    assert (sample.name, sample.value) == ("x_total", 3)
    assert sample.labels == {"connector": AWKWARD["connector"], "topic": "köln?"}
    values = [one.value for one in found["x_bytes"].samples]
    assert values[:3] == [1.5, math.inf, -math.inf]
    assert math.isnan(values[3])
    buckets = {one.labels["le"]: one.value for one in found["x_seconds"].samples if one.name.endswith("_bucket")}
    assert buckets == {"0.1": 2, "2.5": 3, "+Inf": 4}
    assert page.endswith("# EOF\n") is (format is Format.OPEN_METRICS)


@pytest.mark.parametrize(
    ("accept", "format"),
    [
        (None, Format.TEXT),
        ("*/*", Format.TEXT),
        ("text/plain", Format.TEXT),
        ("application/openmetrics-text", Format.OPEN_METRICS),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format.OPEN_METRICS),
        ("application/openmetrics-text;q=0.5,text/plain", Format.TEXT),
        ("application/openmetrics-text;q=0, */*", Format.TEXT),
        ("application/openmetrics-text;q=x", Format.TEXT),
        ("application/json", Format.TEXT),
    ],
)
def test_accept_header_chooses_the_format(accept: str | None, format: Format) -> None:
    assert choose_format(accept) is format


def test_families_of_one_name_are_merged_and_other_kinds_dropped() -> None:
    (family,) = merged([gauge("x", "One.").add(1, {"a": "1"}), gauge("x", "Two.").add(2, {"a": "2"}), counter("x", "").add(3)])
    assert (family.help, family.values) == ("One.", [1, 2])
