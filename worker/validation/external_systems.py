"""Connection tests and lists of tables, within a time limit: what ``Connector.external_system`` of a class says.

Runs where plugins run, in an executor or a command. Answers are in REST's form.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from connect.config.types import ConfigType
from connect.connector import Connector
from connect.errors import BadRequestError, ConfigError, ConnectError, MissingExtraError, UnreachableError, UnsupportedError
from connect.external_system import (
    MAX_COLLECTIONS,
    ConnectionStep,
    ExternalSystem,
    StepState,
    error_finding,
)
from connect.plugins import Kind, Plugins
from worker.config.secrets import SecretMask, mask_error
from worker.model import SystemQuestion

log = logging.getLogger(__name__)

SYSTEM_TIMEOUT_S = 30.0
"""How long a connection test or a list of tables may take. Then the connector's call is cancelled."""
_CANCELLER_JOIN_S = 1.0


def answer_about_system(
    plugins: Plugins, values: Mapping[str, str | None], question: SystemQuestion, timeout_s: float = SYSTEM_TIMEOUT_S
) -> dict[str, Any]:
    """Answers a question about the external system of a configuration, with its references resolved.

    Raises PluginNotFoundError, UnsupportedError for a connector class without connection tests, and, for DATA_COLLECTIONS, the
    connector's ConnectError.
    """
    connector = _create(plugins, values)
    if question is SystemQuestion.CAPABILITIES:
        return _capabilities(connector)
    if not _has_system(connector):
        raise UnsupportedError(
            f"{_name(connector)} has no connection test and no list of tables: its class does not override external_system"
        )
    config = {key: value for key, value in values.items() if value is not None}
    mask = _mask_of(connector, config)
    try:
        if question is SystemQuestion.CONNECTION_TEST:
            answer = mask.mask_json(_test(connector, config, timeout_s, mask))
        else:
            answer = _list(connector, config, timeout_s, mask)
    except Exception as e:
        if (masked := mask_error(e, mask)) is e:
            raise
        raise masked from None  # a log would show the cause
    assert isinstance(answer, dict)
    return answer


def _mask_of(connector: Connector, config: Mapping[str, str]) -> SecretMask:
    """Promise 9: the secrets of this configuration, also in keys whose names do not tell."""
    mask = SecretMask()
    mask.add(config, [name for name, key in connector.config_def().keys.items() if key.type is ConfigType.PASSWORD])
    return mask


def _create(plugins: Plugins, values: Mapping[str, str | None]) -> Connector:
    desc = plugins.resolve(Kind.CONNECTOR, values.get("connector.class") or "")
    connector = plugins.load(desc)()
    if not isinstance(connector, Connector):
        raise BadRequestError(f"{desc.class_name} is not a connector; choose a class that GET /connector-plugins lists")
    return connector


def _has_system(connector: Connector) -> bool:
    return type(connector).external_system is not Connector.external_system


def _name(connector: Connector) -> str:
    return type(connector).__name__


def _capabilities(connector: Connector) -> dict[str, Any]:
    keys = connector.collection_keys.items() if _has_system(connector) else ()
    return {
        "connection_test": _has_system(connector),
        "collection_keys": [{"name": name, "form": form.value} for name, form in keys],
    }


def _test(connector: Connector, config: Mapping[str, str], timeout_s: float, mask: SecretMask) -> dict[str, Any]:
    started = time.monotonic()
    steps: list[ConnectionStep] = []
    timed_out = threading.Event()
    try:
        with _system(connector, config, timeout_s, timed_out) as system:
            steps.extend(system.test_connection())
        if timed_out.is_set() and steps and steps[-1].state is StepState.FAILED:
            steps.append(_late_step(steps, timeout_s))  # the step says only that it was cancelled
    except Exception as e:
        steps.append(_late_step(steps, timeout_s) if timed_out.is_set() else _failed_step(e, steps, mask))
    states = {step.state for step in steps}
    state = next((one for one in (StepState.FAILED, StepState.WARNING) if one in states), StepState.PASSED)
    return {
        "state": state.value,
        "duration_ms": round((time.monotonic() - started) * 1000),
        "steps": [step.as_json() for step in steps],
    }


def _list(connector: Connector, config: Mapping[str, str], timeout_s: float, mask: SecretMask) -> dict[str, Any]:
    """A table whose name contains a secret is left out: its masked name would select nothing."""
    timed_out = threading.Event()
    try:
        with _system(connector, config, timeout_s, timed_out) as system:
            found = system.data_collections()
    except Exception as e:
        if timed_out.is_set():
            raise UnreachableError(f"Listing the tables took longer than {timeout_s:g} s, so it was cancelled") from e
        raise
    shown = [one for one in found[:MAX_COLLECTIONS] if mask.mask(one.name + one.entry) == one.name + one.entry]
    return {
        "collections": [mask.mask_json(one.as_json()) for one in shown],
        "hidden": min(len(found), MAX_COLLECTIONS) - len(shown),
        "is_truncated": len(found) > MAX_COLLECTIONS,
        "keys": _capabilities(connector)["collection_keys"],
    }


@contextmanager
def _system(
    connector: Connector, config: Mapping[str, str], timeout_s: float, timed_out: threading.Event
) -> Iterator[ExternalSystem]:
    """Opens the system, cancels its calls when the time is over, and closes it."""
    system = connector.external_system(config)
    if system is None:
        raise UnsupportedError(f"{_name(connector)} has no connection test for this configuration")

    def cancel() -> None:
        timed_out.set()
        system.cancel()

    canceller = threading.Timer(timeout_s, cancel)
    canceller.name, canceller.daemon = "connection-test-deadline", True
    canceller.start()
    try:
        yield system
    finally:
        canceller.cancel()
        canceller.join(_CANCELLER_JOIN_S)
        system.close()


def _late_step(steps: list[ConnectionStep], timeout_s: float) -> ConnectionStep:
    after = f" after step {steps[-1].name}" if steps else ""
    finding = error_finding(
        "timed-out",
        f"The system did not answer within {timeout_s:g} s{after}, so the test was cancelled",
        suggestion="Check that the address is right, and that the system is not overloaded",
    )
    return ConnectionStep("Time limit", findings=(finding,))


def _failed_step(error: Exception, steps: list[ConnectionStep], mask: SecretMask) -> ConnectionStep:
    if not isinstance(error, ConnectError):
        # Promise 9: nobody else knows the secrets of this configuration.
        trace = mask.mask("".join(traceback.format_exception(error)).rstrip())
        log.error("A connection test failed with an unexpected error of the connector:\n%s", trace)
        finding = error_finding("connector-error", f"The connector failed: {type(error).__name__}: {error}")
        return ConnectionStep("Connector", findings=(finding,))
    path = error.key if isinstance(error, ConfigError) else None
    code = _code(error)
    name = "Configuration" if not steps and isinstance(error, ConfigError) else "Connection"
    if name in {step.name for step in steps}:
        name = f"After {steps[-1].name}"
    return ConnectionStep(name, findings=(error_finding(code, error.message, path),))


def _code(error: ConnectError) -> str:
    if isinstance(error, MissingExtraError):
        return "missing-extra"
    if isinstance(error, ConfigError):
        return "invalid-config"
    return "unreachable" if isinstance(error, UnreachableError) else "failed"
