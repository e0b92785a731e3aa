"""Writes metrics in Prometheus's text format and in OpenMetrics.

Not with prometheus-client's writer, which is made for the metrics of one program: a worker with 600 tasks has 25,000 samples, and
this one takes a sixteenth of the time. Tests read its output with prometheus-client's parsers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import accumulate
from typing import Any

from connect.metrics import HistogramFigures, MetricKind
from worker.observability.metrics.families import MetricFamily


class Format(Enum):
    """The formats, with their media types."""

    TEXT = "text/plain; version=0.0.4; charset=utf-8"
    OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


def choose_format(accept: str | None) -> Format:
    """Returns the format that an Accept header prefers: OpenMetrics only if it is named."""
    weights = {Format.TEXT: 0.0, Format.OPEN_METRICS: 0.0}
    for part in (accept or "").split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        weight = next((_weight(one) for one in parameters if one.startswith("q=")), 1.0)
        if media == "application/openmetrics-text":
            weights[Format.OPEN_METRICS] = max(weights[Format.OPEN_METRICS], weight)
        elif media in ("text/plain", "text/*", "*/*"):
            weights[Format.TEXT] = max(weights[Format.TEXT], weight)
    return Format.OPEN_METRICS if weights[Format.OPEN_METRICS] > weights[Format.TEXT] else Format.TEXT


def _weight(parameter: str) -> float:
    try:
        return float(parameter.removeprefix("q="))
    except ValueError:
        return 0.0


def render(families: Iterable[MetricFamily], format: Format) -> bytes:
    """Returns the page. Families without samples are left out."""
    parts: list[str] = []
    is_open = format is Format.OPEN_METRICS
    for family in families:
        if not family.values:
            continue
        # In OpenMetrics, the name of a counter does not have the suffix that its samples have.
        name = family.name.removesuffix("_total") if is_open and family.kind is MetricKind.COUNTER else family.name
        help = family.help.replace("\\", "\\\\").replace("\n", "\\n")
        if is_open:
            help = help.replace('"', '\\"')
        parts.append(f"# HELP {name} {help}\n# TYPE {name} {family.kind.value}\n")
        if family.kind is MetricKind.HISTOGRAM:
            _add_histograms(parts, family)
        else:
            parts.append(_samples(family.name, family.labels, family.values))
    if is_open:
        parts.append("# EOF\n")
    return "".join(parts).encode()


def _samples(name: str, labels: Sequence[str], values: Sequence[Any]) -> str:
    """``values`` are numbers: histograms are written elsewhere."""
    first = values[0]
    if values.count(first) == len(values) and math.isfinite(first) and "" not in labels:
        # Most metrics of an idle worker: one join instead of a text per sample.
        start, end = f"{name}{{", f"}} {first!r}\n"
        return f"{start}{f'{end}{start}'.join(labels)}{end}"
    numbers: Sequence[object] = values
    if not math.isfinite(sum(values)):
        numbers = [value if math.isfinite(value) else _Special(value) for value in values]
    return "".join(
        [
            f"{name}{{{rendered}}} {value!r}\n" if rendered else f"{name} {value!r}\n"
            for rendered, value in zip(labels, numbers, strict=True)
        ]
    )


class _Special:
    """A value whose text is not Python's: infinity, or not a number."""

    __slots__ = ("_text",)

    def __init__(self, value: float) -> None:
        self._text = "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"

    def __repr__(self) -> str:
        return self._text


def _add_histograms(parts: list[str], family: MetricFamily) -> None:
    name = family.name
    bounds: Sequence[float] = ()
    ends: dict[Sequence[int], list[str]] = {}
    """By counts: what follows the labels in the lines of the buckets. Tasks with as few observations have the same."""
    for labels, value in zip(family.labels, family.values, strict=True):
        if not isinstance(value, HistogramFigures):
            continue
        if value.bounds is not bounds:
            bounds, ends = value.bounds, {}
        counts = tuple(value.counts)
        if (found := ends.get(counts)) is None:
            found = ends[counts] = _bucket_ends(bounds, counts)
        start = f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
        rendered = f"{{{labels}}}" if labels else ""
        parts += (start, start.join(found), f"{name}_sum{rendered} {value.total!r}\n{name}_count{rendered} {value.count}\n")


def _bucket_ends(bounds: Sequence[float], counts: Sequence[int]) -> list[str]:
    return [f'le="{bound}"}} {count}\n' for bound, count in zip((*map(repr, bounds), "+Inf"), accumulate(counts), strict=True)]
