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


def test_equal_values_are_written_like_others() -> None:
    times, others = Histogram((0.1, 2.5)), Histogram((0.1, 5.0))
    times.observe(1.0)
    others.observe(3.0)
    labels = ['a="1"', 'a="2"', ""]

    def page(values: list[float], labels: list[str]) -> str:
        return render([MetricFamily("x", MetricKind.GAUGE, "X.", labels, list(values))], Format.TEXT).decode()

    head = "# HELP x X.\n# TYPE x gauge\n"
    assert page([0.0, 0.0], labels[:2]) == head + 'x{a="1"} 0.0\nx{a="2"} 0.0\n'
    assert page([0.0, 0.5], labels[:2]) == head + 'x{a="1"} 0.0\nx{a="2"} 0.5\n'
    assert page([7, 7, 7], labels) == head + 'x{a="1"} 7\nx{a="2"} 7\nx 7\n'
    assert page([math.inf, math.inf], labels[:2]) == head + 'x{a="1"} +Inf\nx{a="2"} +Inf\n'
    assert page([math.nan], labels[:1]) == head + 'x{a="1"} NaN\n'
    family = MetricFamily("x", MetricKind.HISTOGRAM, "X.")
    for name, histogram in (("1", times), ("2", times), ("3", others), ("4", times)):
        family.add(histogram.figures(), {"a": name})
    found = [line.removeprefix("x_") for line in render([family], Format.TEXT).decode().splitlines()[2:]]
    expected = []
    for name, bound, total in (("1", "2.5", "1.0"), ("2", "2.5", "1.0"), ("3", "5.0", "3.0"), ("4", "2.5", "1.0")):
        buckets = [f'bucket{{a="{name}",le="{end}"}} {count}' for end, count in (("0.1", 0), (bound, 1), ("+Inf", 1))]
        expected += [*buckets, f'sum{{a="{name}"}} {total}', f'count{{a="{name}"}} 1']
    assert found == expected
