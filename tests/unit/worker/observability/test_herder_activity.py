"""What an answer says that timed out."""

from __future__ import annotations

import itertools

from worker.observability.herder_activity import CurrentStage


def test_sentences_are_apaches() -> None:
    clock = itertools.count(1_700_000_000_000, 1_500)
    stages = CurrentStage(lambda: next(clock))
    assert stages.timed_out() == "Request timed out"
    with stages.of("reading to the end of the config topic"):
        assert stages.timed_out() == (
            "Request timed out. The worker is currently reading to the end of the config topic, which began at "
            "2023-11-14T22:13:20Z."
        )
        with stages.of("writing a status"):
            now = stages.now()
            assert now is not None
            assert now.description == "writing a status"
    assert stages.timed_out() == (
        "Request timed out. The last operation the worker completed was reading to the end of the config topic, which began at "
        "2023-11-14T22:13:20Z and completed at 2023-11-14T22:13:24.500Z."
    )
