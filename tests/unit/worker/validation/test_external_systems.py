"""Connection tests and lists of tables: the time limit, failures of connectors, and secrets."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, PluginNotFoundError, UnreachableError, UnsupportedError
from connect.external_system import MAX_COLLECTIONS, ConnectionStep, DataCollection, error_finding, warning_finding
from connect.plugins import Plugins
from tests.support.waiting import WAIT_S
from tests.unit.worker.validation.scripted_system import PATH, PLAIN, ScriptedSource, ScriptedSystem
from worker.cancellation import Cancellation
from worker.model import SystemQuestion
from worker.validation.external_systems import answer_about_system

TEST, TABLES = SystemQuestion.CONNECTION_TEST, SystemQuestion.DATA_COLLECTIONS


def ask(question: SystemQuestion, values: Mapping[str, str] | None = None, timeout_s: float = WAIT_S) -> dict[str, Any]:
    config = {"connector.class": PATH, **(values or {})}
    return answer_about_system(Plugins.discover(), config, question, timeout_s=timeout_s)


def steps(answer: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(step["name"], step["state"]) for step in answer["steps"]]


@pytest.fixture(autouse=True)
def _reset(monkeypatch: pytest.MonkeyPatch) -> None:
    ScriptedSystem.cancelled.clear()
    monkeypatch.setattr(ScriptedSystem, "closed", 0)


def does(monkeypatch: pytest.MonkeyPatch, name: str, call: Any) -> None:
    monkeypatch.setattr(ScriptedSystem, name, staticmethod(call), raising=False)


def test_steps_are_reported_with_the_worst_state(monkeypatch: pytest.MonkeyPatch) -> None:
    finding = warning_finding("slow", "the server is slow", "host", "Buy another")
    does(monkeypatch, "steps", lambda config: iter([ConnectionStep("a", "fine"), ConnectionStep("b", findings=[finding])]))
    answer = ask(TEST)
    assert (answer["state"], steps(answer)) == ("warning", [("a", "passed"), ("b", "warning")])
    assert answer["steps"][1]["findings"] == [finding.as_json()]
    assert answer["duration_ms"] >= 0
    assert ScriptedSystem.closed == 1


def test_call_is_cancelled_at_the_time_limit_and_earlier_steps_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        yield ConnectionStep("first")
        assert ScriptedSystem.cancelled.wait(WAIT_S)
        raise RuntimeError("interrupted")

    does(monkeypatch, "steps", hang)
    answer = ask(TEST, timeout_s=0.05)
    assert steps(answer) == [("first", "passed"), ("Time limit", "failed")]
    assert answer["steps"][1]["findings"][0]["code"] == "timed-out"
    assert "after step first" in answer["steps"][1]["findings"][0]["message"]
    assert ScriptedSystem.closed == 1


def test_step_that_hides_the_cancellation_is_followed_by_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        assert ScriptedSystem.cancelled.wait(WAIT_S)
        yield ConnectionStep("Tables", findings=[error_finding("not-readable", "the statement was cancelled")])

    does(monkeypatch, "steps", hang)
    assert steps(ask(TEST, timeout_s=0.05)) == [("Tables", "failed"), ("Time limit", "failed")]


def test_log_of_an_unexpected_error_has_no_secrets(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        try:
            raise OSError("cannot open db://user:hunter22@host")
        except OSError as e:
            raise RuntimeError("the driver failed") from e

    does(monkeypatch, "steps", fail)
    assert steps(ask(TEST, {"db.password": "hunter22"})) == [("Connector", "failed")]
    assert "OSError: cannot open db://user:" in caplog.text
    assert "hunter22" not in caplog.text


def test_error_with_a_secret_does_not_carry_its_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "hunter22"

    def fail(config: Mapping[str, str]) -> list[DataCollection]:
        raise ConnectError(f"cannot open db://user:{secret}@host")

    does(monkeypatch, "collections", fail)
    with pytest.raises(ConnectError) as caught:
        ask(TABLES, {"db.password": secret})
    assert secret not in "".join(traceback.format_exception(caught.value))


def test_call_is_cancelled_when_nobody_waits_for_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    cancellation = Cancellation()

    def hang() -> None:
        cancellation.cancel()
        assert ScriptedSystem.cancelled.wait(WAIT_S)
        raise ConnectError("interrupted")

    def hang_in_a_step(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        yield ConnectionStep("first")
        hang()

    def hang_in_a_list(config: Mapping[str, str]) -> list[DataCollection]:
        hang()
        return []

    does(monkeypatch, "steps", hang_in_a_step)
    does(monkeypatch, "collections", hang_in_a_list)
    answer = answer_about_system(Plugins.discover(), {"connector.class": PATH}, TEST, cancellation=cancellation)
    assert steps(answer) == [("first", "passed"), ("Cancellation", "failed")]
    ScriptedSystem.cancelled.clear()
    cancellation = Cancellation()
    with pytest.raises(ConnectError, match="Listing the tables was cancelled"):
        answer_about_system(Plugins.discover(), {"connector.class": PATH}, TABLES, cancellation=cancellation)
    assert ScriptedSystem.closed == 2


def test_connection_test_in_which_all_is_skipped_has_not_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    skipped = ConnectionStep("Connection", "no address", is_skipped=True)
    does(monkeypatch, "steps", lambda config: iter([skipped]))
    assert ask(TEST)["state"] == "skipped"
    does(monkeypatch, "steps", lambda config: iter([skipped, ConnectionStep("File")]))
    assert ask(TEST)["state"] == "passed"


@pytest.mark.parametrize("question", [TEST, TABLES])
def test_configuration_without_a_system_is_an_error_and_no_failed_step(
    monkeypatch: pytest.MonkeyPatch, question: SystemQuestion
) -> None:
    monkeypatch.setattr(ScriptedSource, "external_system", lambda self, config: None)
    with pytest.raises(UnsupportedError, match="ScriptedSource has no connection test for this configuration"):
        ask(question)


def test_operation_that_the_connector_does_not_support_is_a_failed_step(monkeypatch: pytest.MonkeyPatch) -> None:
    def steps(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        yield ConnectionStep("Connection")
        raise UnsupportedError("the server's checksums are unknown")

    does(monkeypatch, "steps", steps)
    answer = ask(TEST)
    assert (answer["state"], [step["name"] for step in answer["steps"]]) == ("failed", ["Connection", "After Connection"])
    assert "the server's checksums are unknown" in str(answer["steps"][-1])


def test_values_of_config_providers_are_masked_and_tables_with_them_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, "steps", lambda config: iter([ConnectionStep("a", f"connected to {config['host']}")]))
    found = [DataCollection(f"{name}.t", f"{name}.t") for name in ("public", "tricycle-77")]
    does(monkeypatch, "collections", lambda config: found)
    config = {"connector.class": PATH, "host": "tricycle-77"}
    answer = answer_about_system(Plugins.discover(), config, TEST, {"tricycle-77"})
    assert answer["steps"][0]["detail"] == "connected to [hidden]"
    answer = answer_about_system(Plugins.discover(), config, TABLES, {"tricycle-77"})
    assert ([one["name"] for one in answer["collections"]], answer["hidden"]) == (["public.t"], 1)


def test_list_is_cancelled_at_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(config: Mapping[str, str]) -> list[DataCollection]:
        assert ScriptedSystem.cancelled.wait(WAIT_S)
        raise ConnectError("interrupted")

    does(monkeypatch, "collections", hang)
    with pytest.raises(UnreachableError, match=r"took longer than 0\.05 s"):
        ask(TABLES, timeout_s=0.05)
    assert ScriptedSystem.closed == 1


@pytest.mark.parametrize(
    ("error", "step", "code", "path"),
    [
        (ConfigError("no such file", key="file"), "Configuration", "invalid-config", "file"),
        (UnreachableError("nobody there"), "Connection", "unreachable", None),
        (ConnectError("rejected"), "Connection", "failed", None),
        (ZeroDivisionError("a bug"), "Connector", "connector-error", None),
    ],
)
def test_error_of_the_connector_becomes_a_failed_step(
    monkeypatch: pytest.MonkeyPatch, error: Exception, step: str, code: str, path: str | None
) -> None:
    def fail(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        yield from ()
        raise error

    does(monkeypatch, "steps", fail)
    answer = ask(TEST)
    assert (answer["state"], steps(answer)) == ("failed", [(step, "failed")])
    (finding,) = answer["steps"][0]["findings"]
    assert (finding["code"], finding["path"]) == (code, path)


def test_secrets_of_the_configuration_are_masked_also_those_known_by_type_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def leak(config: Mapping[str, str]) -> Iterator[ConnectionStep]:
        yield ConnectionStep("a", f"logged in with {config['door']}")
        raise ConnectError(f"cannot open {config['door']} and {config['db.password']}")

    does(monkeypatch, "steps", leak)
    answer = ask(TEST, {"door": "tricycle-77", "db.password": "other-99"})
    assert answer["steps"][0]["detail"] == "logged in with [hidden]"
    assert answer["steps"][1]["findings"][0]["message"] == "cannot open [hidden] and [hidden]"

    def fail(config: Mapping[str, str]) -> list[DataCollection]:
        raise ConnectError(f"cannot open {config['door']}")

    does(monkeypatch, "collections", fail)
    with pytest.raises(ConnectError, match=r"cannot open \[hidden\]"):
        ask(TABLES, {"door": "tricycle-77"})


def test_table_whose_name_has_a_secret_is_left_out_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [DataCollection("public.orders", "public.orders"), DataCollection("public.tricycle-77", "x")]
    does(monkeypatch, "collections", lambda config: found)
    answer = ask(TABLES, {"door": "tricycle-77"})
    assert [one["name"] for one in answer["collections"]] == ["public.orders"]
    assert answer["hidden"] == 1


def test_long_list_is_truncated(monkeypatch: pytest.MonkeyPatch) -> None:
    does(monkeypatch, "collections", lambda config: [DataCollection(f"t{n}", f"t{n}") for n in range(MAX_COLLECTIONS + 1)])
    answer = ask(TABLES)
    assert (len(answer["collections"]), answer["is_truncated"]) == (MAX_COLLECTIONS, True)
    assert answer["keys"] == [{"name": "tables", "form": "name"}]


def test_class_without_the_capability_says_so() -> None:
    assert ask(SystemQuestion.CAPABILITIES, {"connector.class": PLAIN}) == {"connection_test": False, "collection_keys": []}
    assert ask(SystemQuestion.CAPABILITIES)["connection_test"] is True
    with pytest.raises(UnsupportedError, match="ScriptedConnector has no connection test"):
        ask(TEST, {"connector.class": PLAIN})
    with pytest.raises(PluginNotFoundError):
        ask(TEST, {"connector.class": "Postgress"})
