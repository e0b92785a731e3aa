"""Metrics as Prometheus defines them: families of samples with labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from connect.metrics import HistogramFigures, MetricKind

Value = float | HistogramFigures


@dataclass(slots=True)
class MetricFamily:
    """All samples of one name. ``labels`` are rendered (:func:`render_labels`): many families share those of a task."""

    name: str
    kind: MetricKind
    help: str
    labels: list[str] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)

    def add(self, value: Value, labels: Mapping[str, str] | str = "") -> MetricFamily:
        """Adds a sample. Returns the family."""
        self.labels.append(labels if isinstance(labels, str) else render_labels(labels))
        self.values.append(value)
        return self


MetricSource = Callable[[], Iterable[MetricFamily]]
"""Returns families at each scrape. Must be quick; no two sources may return the same family."""


def gauge(name: str, help: str) -> MetricFamily:
    return MetricFamily(name, MetricKind.GAUGE, help)


def counter(name: str, help: str) -> MetricFamily:
    """``name`` ends in ``_total``."""
    return MetricFamily(name, MetricKind.COUNTER, help)


def render_labels(labels: Mapping[str, str]) -> str:
    """Returns labels as they stand between the braces of a sample."""
    return ",".join([f'{name}="{_escape(value)}"' for name, value in labels.items()])


def with_label(rendered: str, name: str, value: str) -> str:
    """Adds a label to rendered ones."""
    return f'{rendered},{name}="{_escape(value)}"' if rendered else f'{name}="{_escape(value)}"'


def _escape(value: str) -> str:
    if "\\" in value or '"' in value or "\n" in value:
        value = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    # Python's text may hold half of a surrogate pair, which UTF-8 does not have.
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def merged(families: Iterable[MetricFamily]) -> Sequence[MetricFamily]:
    """Returns one family per name: connectors of different versions may describe the same metric differently. The first one's
    kind counts, and samples of another kind are dropped."""
    found: dict[str, MetricFamily] = {}
    for family in families:
        known = found.setdefault(family.name, family)
        if known is not family and known.kind is family.kind:
            known.labels += family.labels
            known.values += family.values
    return list(found.values())
