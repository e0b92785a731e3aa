"""Rates, averages, and maxima of the recent past, as Kafka computes them."""

from __future__ import annotations

import pytest

from worker.observability.metrics.windows import NO_VALUES, SampledWindow, WindowSettings


def test_values_older_than_the_window_do_not_count() -> None:
    window = SampledWindow(WindowSettings(10.0, 2))
    window.record(100, 0.0)
    window.record(4, 12.0)
    window.record(8, 13.0)
    assert window.summary(13.0).maximum == 100
    assert window.summary(21.0)[:1] == (2,)
    assert window.summary(21.0).maximum == 8
    assert window.summary(21.0).minimum == 4
    assert window.summary(21.0).average == 6
    assert window.summary(33.0) == NO_VALUES


def test_rate_of_a_young_window_counts_one_sample_as_full() -> None:
    window = SampledWindow(WindowSettings(30.0, 2))
    window.record(300, 100.0)
    # Kafka's Rate: elapsed time plus (samples - 1) windows that are not full yet.
    assert window.summary(105.0).rate == pytest.approx(300 / 35)
    assert window.summary(131.0).rate == pytest.approx(300 / 31)


def test_one_sample_is_enough() -> None:
    window = SampledWindow(WindowSettings(10.0, 1))
    window.record(1, 0.0)
    window.record(5, 11.0)
    assert window.summary(11.0).maximum == 5
    assert window.summary(11.0).values == 1


def test_window_of_zero_length_does_not_fail() -> None:
    window = SampledWindow(WindowSettings(0.0, 2))
    window.record(1, 5.0)
    assert window.summary(5.0) == NO_VALUES
