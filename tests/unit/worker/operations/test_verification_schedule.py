"""When connectors are verified, and what becomes of each run. Time is a manual clock, and processes are scripted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, NotFoundError, UnreachableError
from tests.unit.rest.fake_herder import FakeDocuments
from worker.config.secrets import SecretMask
from worker.observability.verifications import VerificationAttempt, VerificationResults
from worker.operations.verification.schedule import VerificationSchedule
from worker.operations.verification.settings import RESOLVE_AGAIN_MS, Config, VerifySettings
from worker.operations.verification.timetable import SETTLE_MS, Timetable

HOUR_MS = 3_600_000
RESULT = {"source": "db", "sink": "lake", "equal": True, "rows": 10, "differences": 0, "unsettled": 0, "seconds": 1.5}
Answer = Callable[[str, Mapping[str, Any]], Any]


class Child:
    """A process that ends when the test says so."""

    def __init__(self, name: str, words: Sequence[str], answer: Answer) -> None:
        self.name = name
        self.words = list(words)
        self.answer = answer
        self.is_ended = self.is_closed = False
        self.reason: str | None = "no reason"

    def ends(self, *results: Mapping[str, Any], reason: str | None = None) -> None:
        for one in results:
            self.answer("result", {"document": one})
        self.reason, self.is_ended = reason, True

    def has_ended(self) -> bool:
        return self.is_ended

    def close(self) -> str | None:
        self.is_closed = True
        return self.reason


class Site:
    """Workers that share stored results and a clock."""

    def __init__(self) -> None:
        self.now_ms = 1_700_000_000_000
        self.documents = FakeDocuments()
        self.results = VerificationResults(self.documents, lambda: self.now_ms)
        self.children: list[Child] = []

    def worker(
        self,
        running: dict[str, dict[str, str | None]],
        others: Mapping[str, Config] | None = None,
        resolve: Callable[[Config], Config] = lambda config: config,
        name: str = "a:1",
    ) -> VerificationSchedule:
        """A worker of a site whose other connectors run elsewhere, or nowhere."""

        def start(name: str, words: Sequence[str], answer: Answer) -> Child:
            self.children.append(Child(name, words, answer))
            return self.children[-1]

        mask = SecretMask()
        mask.add({"db.password": "s3cret-value"})
        return VerificationSchedule(
            self.results,
            lambda: {"db": {"connector.class": "Source"}, **running, **(others or {})},
            lambda: dict(running),
            resolve,
            self._answer,
            mask,
            start,
            name,
            lambda: self.now_ms,
        )

    @staticmethod
    def _answer(on_result: Callable[[Mapping[str, Any]], None]) -> Answer:
        return lambda method, arguments: on_result(arguments["document"])

    def run(self, schedule: VerificationSchedule, for_ms: int = SETTLE_MS, step_ms: int = 1000) -> None:
        """Ticks for a while."""
        for _ in range(0, for_ms, step_ms):
            self.now_ms += step_ms
            schedule.tick()

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.children]


def config(interval_ms: int = HOUR_MS, more: Mapping[str, str | None] | None = None) -> dict[str, str | None]:
    return {"connector.class": "SparkSink", "verify.interval.ms": str(interval_ms), **(more or {})}


@pytest.fixture
def site() -> Site:
    return Site()


def test_first_run_begins_soon_and_the_next_an_interval_after_the_end(site: Site) -> None:
    schedule = site.worker({"lake": config(), "other": {"connector.class": "SparkSink"}, "off": config(0)})
    schedule.tick()
    site.run(schedule, SETTLE_MS - 1000)
    assert site.names == []
    site.run(schedule, 1000)
    assert site.names == ["lake"]
    site.run(schedule, 100_000)
    site.children[0].ends(RESULT)
    schedule.tick()
    assert site.children[0].is_closed
    site.run(schedule, HOUR_MS - 1000)
    assert site.names == ["lake"]
    site.run(schedule, 1000)
    assert site.names == ["lake", "lake"]


def test_keys_become_options_of_the_command(site: Site) -> None:
    keys: dict[str, str | None] = {
        "verify.source": "db",
        "verify.tables": "a,b",
        "verify.ignore.columns": "x",
        "verify.timeout.ms": "90500",
    }
    site.run(site.worker({"lake": config(more=keys)}), SETTLE_MS + 2000)
    assert site.children[0].words == ["--source=db", "--tables=a,b", "--ignore-columns=x", "--timeout=90.500s"]


def test_result_is_stored_for_sink_and_source(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    schedule = site.worker({"lake": config()})
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends({**RESULT, "equal": False, "differences": 3})
    schedule.tick()
    assert {name: one.differences for name, one in site.results.all().items()} == {"lake": 3, "db": 3}
    assert site.results.attempt("lake") == VerificationAttempt(site.now_ms, None, "a:1")
    assert site.results.attempt("db") is None
    assert "The tables of connector lake do not equal the database: 3 of 10 rows differ" in caplog.text


def test_restarted_or_other_worker_continues_the_schedule(site: Site) -> None:
    first = site.worker({"lake": config()})
    site.run(first, SETTLE_MS + 2000)
    site.children[0].ends(RESULT)
    first.tick()
    site.now_ms += HOUR_MS // 2
    second = site.worker({"lake": config()})
    site.run(second, HOUR_MS // 2 - 2000)
    assert site.names == ["lake"]
    site.run(second, 3000)
    assert site.names == ["lake"] * 2


def test_run_that_was_missed_is_made_up_for_once(site: Site) -> None:
    site.results.store_attempt("lake", VerificationAttempt(site.now_ms, None))
    site.now_ms += 50 * HOUR_MS
    schedule = site.worker({"lake": config()})
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends(RESULT)
    site.run(schedule, HOUR_MS // 2)
    assert site.names == ["lake"]


def test_failure_is_stored_without_secrets_and_repeated_soon(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    schedule = site.worker({"lake": config()})
    site.results.store("lake", RESULT)
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends(reason="cannot connect with s3cret-value")
    site.run(schedule, 60_000)
    attempt = site.results.attempt("lake")
    assert attempt is not None
    assert attempt.error is not None
    assert attempt.error.startswith("cannot connect with ")
    assert "s3cret-value" not in f"{attempt.error} {caplog.text}"
    assert site.results.get("lake") is not None, "the last result stays"
    assert site.names == ["lake"]
    assert "failed; the next one is due in 60 s: cannot connect" in caplog.text
    site.run(schedule, 1000)
    assert site.names == ["lake"] * 2


def test_failures_are_repeated_less_often_until_one_run_has_a_result(site: Site) -> None:
    day_ms = 24 * HOUR_MS
    schedule = site.worker({"lake": config(day_ms)})
    site.run(schedule, SETTLE_MS + 2000)
    first_ms, delays_ms = site.now_ms, []
    for _ in range(9):
        site.children[-1].ends(reason="the database does not answer")
        schedule.tick()
        attempt = site.results.attempt("lake")
        assert attempt is not None
        assert attempt == VerificationAttempt(site.now_ms, "the database does not answer", "a:1", first_ms)
        shown = schedule.shown("lake", config(day_ms), is_started=True)
        assert shown is not None
        delays_ms.append(shown["next_ms"] - site.now_ms)
        site.now_ms = shown["next_ms"]
        schedule.tick()
    assert delays_ms == [60_000 * 2 ** max(0, number - 1) for number in range(7)] + [HOUR_MS] * 2
    site.children[-1].ends(RESULT)
    schedule.tick()
    assert site.results.attempt("lake") == VerificationAttempt(site.now_ms, None, "a:1")
    site.run(schedule, day_ms - 60_000, 60_000)
    assert len(site.children) == 10
    site.run(schedule, 60_000)
    assert len(site.children) == 11


def test_source_of_several_sinks_fails_if_one_of_them_is_not_compared(site: Site) -> None:
    schedule = site.worker({"db": config()})
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends(RESULT, reason="comparing b with db: no database")
    schedule.tick()
    attempt = site.results.attempt("db")
    assert attempt is not None
    assert attempt.error == "comparing b with db: no database"
    assert site.results.get("db") is not None


def test_process_that_reports_nothing_has_failed(site: Site) -> None:
    schedule = site.worker({"lake": config()})
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends()
    schedule.tick()
    attempt = site.results.attempt("lake")
    assert attempt is not None
    assert attempt.error == "sluice verify ended without a result"


def test_failure_that_cannot_be_stored_is_not_repeated_at_once(site: Site) -> None:
    schedule = site.worker({"lake": config()})
    site.documents.failure = UnreachableError("no broker")
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends(reason="the same")
    site.run(schedule, 60_000)
    assert site.names == ["lake"]
    assert site.results.attempt("lake") is None
    first_ms = site.now_ms - 59_000
    site.run(schedule, 1000)
    site.documents.failure = None
    site.children[1].ends(reason="the same")
    schedule.tick()
    assert site.results.attempt("lake") == VerificationAttempt(site.now_ms, "the same", "a:1", first_ms)


def test_run_that_exceeds_its_timeout_is_ended_and_fails(site: Site) -> None:
    schedule = site.worker({"lake": config(more={"verify.timeout.ms": "5000"})})
    site.run(schedule, SETTLE_MS + 2000)
    site.run(schedule, 60_000)
    assert site.results.attempt("lake") is None
    site.run(schedule, 10_000)
    assert site.children[0].is_closed
    attempt = site.results.attempt("lake")
    assert attempt is not None
    assert attempt.error == "it did not end within verify.timeout.ms=5000"


@pytest.mark.parametrize("change", ["gone", "other configuration", "no schedule"])
def test_run_ends_without_a_failure_when_the_connector_leaves_pauses_or_changes(site: Site, change: str) -> None:
    running = {"lake": config()}
    schedule = site.worker(running)
    site.run(schedule, SETTLE_MS + 2000)
    changed = {"gone": None, "other configuration": config(more={"topics": "t"}), "no schedule": config(0)}[change]
    del running["lake"]
    if changed is not None:
        running["lake"] = changed
    schedule.tick()
    assert site.children[0].is_closed
    assert (site.results.attempt("lake"), site.results.get("lake")) == (None, None)
    site.run(schedule, SETTLE_MS + 2000)
    assert site.names == ["lake"] * (2 if change == "other configuration" else 1)


def test_connectors_are_verified_one_after_another_the_longest_due_first(site: Site) -> None:
    site.results.store_attempt("b", VerificationAttempt(site.now_ms, None))
    site.now_ms += 1000
    site.results.store_attempt("a", VerificationAttempt(site.now_ms, None))
    site.now_ms += 2 * HOUR_MS
    schedule = site.worker({"a": config(), "b": config(), "c": config()})
    site.now_ms += SETTLE_MS
    for number in range(3):
        site.run(schedule, SETTLE_MS + 2000)
        assert len(site.children) == number + 1
        site.children[-1].ends({**RESULT, "sink": site.names[-1]})
        schedule.tick()
    assert sorted(site.names) == ["a", "b", "c"]


def test_nothing_begins_before_the_stored_results_are_known(site: Site) -> None:
    site.documents.is_read = False
    schedule = site.worker({"lake": config()})
    site.run(schedule, 10 * SETTLE_MS)
    assert site.names == []
    site.documents.is_read = True
    schedule.tick()
    assert site.names == ["lake"]


def test_invalid_settings_are_logged_once_and_stop_no_other_connector(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    schedule = site.worker({"bad": {"verify.interval.ms": "often"}, "lake": config()})
    site.run(schedule, SETTLE_MS + 2000)
    assert site.names == ["lake"]
    assert caplog.text.count("Connector bad is not verified: Invalid value often") == 1


def test_process_that_cannot_be_started_is_a_failure(site: Site) -> None:
    def fail(name: str, words: Sequence[str], answer: Answer) -> Child:
        raise OSError(11, "Resource temporarily unavailable")

    schedule = site.worker({"lake": config()})
    schedule._start_child = fail
    site.run(schedule, SETTLE_MS + 2000)
    attempt = site.results.attempt("lake")
    assert attempt is not None
    assert attempt.error == "sluice verify could not be started: Resource temporarily unavailable"


def test_result_of_a_connector_that_was_deleted_meanwhile_is_refused(site: Site) -> None:
    running = {"lake": config()}
    schedule = site.worker(running)
    site.run(schedule, SETTLE_MS + 2000)
    del running["lake"]
    with pytest.raises(NotFoundError, match="Connector lake was deleted"):
        site.children[0].ends(RESULT)
    assert site.documents.stored == {}


def test_result_of_a_connector_that_is_deleted_while_it_is_stored_is_deleted_too(site: Site) -> None:
    running = {"lake": config()}
    schedule = site.worker(running)
    site.run(schedule, SETTLE_MS + 2000)
    site.documents.on_put = running.clear
    site.children[0].ends(RESULT)
    assert list(site.documents.stored) == ["db"]


def test_nothing_is_stored_for_a_source_that_does_not_exist(site: Site) -> None:
    schedule = site.worker({"lake": config()})
    site.run(schedule, SETTLE_MS + 2000)
    site.children[0].ends({**RESULT, "source": "gone"})
    assert list(site.documents.stored) == ["lake"]


def test_schedule_is_shown_with_its_last_and_next_run(site: Site) -> None:
    schedule = site.worker({})
    assert schedule.shown("lake", {"name": "lake"}, is_started=True) is None
    assert schedule.shown("lake", {"verify.interval.ms": "x"}, is_started=True) is None
    run = {"last_ms": None, "error": None, "worker_id": None, "failing_since_ms": None}
    expected: dict[str, Any] = {"interval_ms": HOUR_MS, "paused": False, **run, "next_ms": None}
    assert schedule.shown("lake", config(), is_started=True) == expected
    since_ms = site.now_ms - 90_000
    site.results.store_attempt("lake", VerificationAttempt(site.now_ms, "why", "b:1", since_ms))
    failed = {"last_ms": site.now_ms, "error": "why", "worker_id": "b:1", "failing_since_ms": since_ms}
    shown = {**expected, **failed, "next_ms": site.now_ms + 90_000}
    assert schedule.shown("lake", config(), is_started=True) == shown
    assert schedule.shown("lake", config(), is_started=False) == {**shown, "paused": True, "next_ms": None}


def test_paused_connectors_have_no_active_schedule(site: Site) -> None:
    schedule = site.worker({"lake": config()}, {"paused": config(), "elsewhere": config(), "plain": {"topics": "t"}})
    assert schedule.all_active(lambda name: name != "paused").keys() == {"lake", "elsewhere"}


class Provider:
    """Resolves ``${p:interval}``."""

    def __init__(self) -> None:
        self.interval = str(HOUR_MS)
        self.failure: ConnectError | None = None
        self.calls = 0
        self.asked: set[str] = set()

    def resolve(self, config: Config) -> Config:
        self.calls += 1
        self.asked |= config.keys()
        if self.failure is not None:
            raise self.failure
        return {key: self.interval if value == "${p:interval}" else value for key, value in config.items()}


REFERENCE: dict[str, str | None] = {"verify.interval.ms": "${p:interval}", "connection.password": "${p:password}"}


def interval_ms(schedule: VerificationSchedule, name: str) -> int | None:
    shown = schedule.shown(name, REFERENCE, is_started=True)
    return None if shown is None else shown["interval_ms"]


def test_schedule_from_a_config_provider_is_shown_wherever_the_connector_runs(site: Site) -> None:
    provider = Provider()
    schedule = site.worker({"lake": REFERENCE}, {"elsewhere": REFERENCE}, provider.resolve)
    assert interval_ms(schedule, "lake") is None
    assert provider.calls == 0, "requests resolve nothing"
    site.run(schedule, RESOLVE_AGAIN_MS)
    assert (interval_ms(schedule, "lake"), interval_ms(schedule, "elsewhere")) == (HOUR_MS, HOUR_MS)
    assert schedule.all_active(lambda name: True).keys() == {"lake", "elsewhere"}
    assert (provider.calls, provider.asked) == (2, {"verify.interval.ms"})
    provider.interval = "7200000"
    site.run(schedule, 1000)
    assert interval_ms(schedule, "elsewhere") == 7_200_000, "values may change without the configuration"


def test_provider_that_fails_for_a_while_does_not_end_the_schedule(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    provider = Provider()
    provider.failure = ConfigError("the file with s3cret-value is missing")
    schedule = site.worker({"lake": REFERENCE}, {"elsewhere": REFERENCE}, provider.resolve)
    site.run(schedule, 2 * RESOLVE_AGAIN_MS)
    assert (site.names, interval_ms(schedule, "lake")) == ([], None)
    assert caplog.text.count("is not verified: the file with ") == 1, caplog.text
    assert "s3cret-value" not in caplog.text
    provider.failure = None
    site.run(schedule, RESOLVE_AGAIN_MS + SETTLE_MS)
    assert (site.names, interval_ms(schedule, "lake")) == (["lake"], HOUR_MS)
    provider.failure = ConfigError("the file is missing again")
    site.run(schedule, RESOLVE_AGAIN_MS)
    assert interval_ms(schedule, "lake") == HOUR_MS
    assert not site.children[0].is_closed


def test_clock_of_another_worker_that_is_ahead_does_not_delay_the_next_run() -> None:
    timetable = Timetable()
    timetable.keep(["lake"], 1000)
    for now_ms in (1000, 2000):
        assert timetable.due_ms("lake", HOUR_MS, VerificationAttempt(10**15, None), now_ms) == 1000 + HOUR_MS


def test_short_interval_does_not_wait_longer_than_itself() -> None:
    timetable = Timetable()
    timetable.keep(["lake"], 0)
    assert timetable.due_ms("lake", 5000, None, 0) == 5000
    assert VerifySettings.of({"verify.interval.ms": "5000"}).timeout_ms == 600_000


@pytest.mark.parametrize("value", ["1", "4999", "-1"])
def test_shorter_interval_than_a_run_needs_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=f"Invalid value {value} for .*: Value must be at least 5000, or 0 for never"):
        VerifySettings.of({"verify.interval.ms": value})
