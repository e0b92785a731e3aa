"""Messages of requests that timed out."""

from __future__ import annotations

import itertools

from worker.observability.herder_activity import HerderActivity


def test_messages_are_apaches() -> None:
    clock = itertools.count(1_700_000_000_000, 1_500)
    activity = HerderActivity(lambda: next(clock))
    assert activity.timed_out() == "Request timed out"
    with activity.doing("reading to the end of the config topic"):
        assert activity.timed_out() == (
            "Request timed out. The worker is currently reading to the end of the config topic, which began at "
            "2023-11-14T22:13:20Z."
        )
        with activity.doing("writing a status"):
            now = activity.now()
            assert now is not None
            assert now.description == "writing a status"
    assert activity.timed_out() == (
        "Request timed out. The last operation the worker completed was reading to the end of the config topic, which began at "
        "2023-11-14T22:13:20Z and completed at 2023-11-14T22:13:24.500Z."
    )
