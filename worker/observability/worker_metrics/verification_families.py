"""The metrics of the last results of ``sluice verify``."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from worker.observability.metrics.families import MetricFamily, gauge, render_labels
from worker.observability.verifications import StoredVerification


def verification_families(
    results: Mapping[str, StoredVerification], connectors: Callable[[], Container[str]]
) -> Iterator[MetricFamily]:
    """Yields the results of connectors that exist. Those of a source are the results of its sinks, so they are left out."""
    if not results:
        return
    existing = connectors()
    found = {
        name: one
        for name, one in results.items()
        if name in existing and (one.document.get("source") != name or one.document.get("sink") == name)
    }
    labels = {
        name: render_labels({"connector": name, "source": str(one.document.get("source", ""))}) for name, one in found.items()
    }
    stored = gauge("sluice_verification_timestamp_seconds", "When the last result of sluice verify was stored, since 1970.")
    equal = gauge("sluice_verification_equal", "1 if the tables equalled the database in the last verification.")
    rows = gauge("sluice_verification_rows", "Rows of the database that the last verification compared.")
    differences = gauge("sluice_verification_differences", "Rows that differed in the last verification.")
    unsettled = gauge("sluice_verification_unsettled_rows", "Rows for which the last verification decided nothing in time.")
    seconds = gauge("sluice_verification_seconds", "How long the last verification took.")
    for name, one in found.items():
        stored.add(one.stored_ms / 1000, labels[name])
        equal.add(1 if one.equal else 0, labels[name])
        rows.add(one.rows, labels[name])
        differences.add(one.differences, labels[name])
        unsettled.add(one.unsettled, labels[name])
        seconds.add(one.seconds, labels[name])
    yield from (stored, equal, rows, differences, unsettled, seconds)


def schedule_families(schedules: Mapping[str, Mapping[str, Any]]) -> Iterator[MetricFamily]:
    """Yields the schedules of connectors, as :meth:`worker.herder.VerificationOperations.verification_schedule` returns them."""
    if not schedules:
        return
    interval = gauge("sluice_verification_interval_seconds", "verify.interval.ms of a connector that is verified on a schedule.")
    attempted = gauge("sluice_verification_last_run_timestamp_seconds", "When the last scheduled run ended, since 1970.")
    failed = gauge("sluice_verification_last_run_failed", "1 if the last scheduled run has no result.")
    for name, one in schedules.items():
        labels = render_labels({"connector": name})
        interval.add(one["interval_ms"] / 1000, labels)
        if one["last_ms"] is not None:
            attempted.add(one["last_ms"] / 1000, labels)
            failed.add(0 if one["error"] is None else 1, labels)
    yield from (interval, attempted, failed)
