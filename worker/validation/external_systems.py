"""Connection tests and lists of tables, within a time limit: what ``Connector.external_system`` of a class says.

Runs where plugins run, in an executor or a command. Answers are in REST's form.
"""

from __future__ import annotations

import logging
import threading
import time
import traceback
from collections.abc import Collection, Iterator, Mapping, Sequence
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
from worker.cancellation import Cancellation
from worker.config.secrets import SecretMask, mask_error
from worker.model import SystemQuestion

log = logging.getLogger(__name__)

SYSTEM_TIMEOUT_S = 30.0
"""How long a connection test or a list of tables may take. Then the connector's call is cancelled."""
_CANCELLER_JOIN_S = 1.0


def answer_about_system(
    plugins: Plugins,
    values: Mapping[str, str | None],
    question: SystemQuestion,
    secrets: Collection[str] = (),
    cancellation: Cancellation | None = None,
    timeout_s: float = SYSTEM_TIMEOUT_S,
) -> dict[str, Any]:
    """Answers a question about the external system of a configuration, with its references resolved; ``secrets`` are their
    values. Neither the answer nor an error contains a secret of the configuration (promise 9).

    Raises PluginNotFoundError, UnsupportedError for a connector class or configuration without connection tests, and, for
    DATA_COLLECTIONS, the connector's ConnectError.
    """
    connector = _create(plugins, values)
    if question is SystemQuestion.CAPABILITIES:
        return _capabilities(connector)
    if not _has_system(connector):
        raise UnsupportedError(
            f"{_name(connector)} has no connection test and no list of tables: its class does not override external_system"
        )
    config = {key: value for key, value in values.items() if value is not None}
    # Also those in keys whose names do not tell.
    mask = SecretMask()
    mask.add_provided(secrets)
    mask.add(config, [name for name, key in connector.config_def().keys.items() if key.type is ConfigType.PASSWORD])
    call = _SystemCall(connector, config, mask, cancellation or Cancellation(), timeout_s)
    try:
        return call.test() if question is SystemQuestion.CONNECTION_TEST else call.list()
    except Exception as e:
        if (masked := mask_error(e, mask)) is e:
            raise
        raise masked from None  # a log would show the cause


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


class _SystemCall:
    """A connection test or a list of tables. For one call."""

    def __init__(
        self, connector: Connector, config: Mapping[str, str], mask: SecretMask, cancellation: Cancellation, timeout_s: float
    ) -> None:
        self._connector = connector
        self._config = config
        self._mask = mask
        self._cancellation = cancellation
        self._timeout_s = timeout_s
        self._timed_out = threading.Event()

    def test(self) -> dict[str, Any]:
        started = time.monotonic()
        steps: list[ConnectionStep] = []
        system: ExternalSystem | None = None
        try:
            system = self._connector.external_system(self._config)
            if system is not None:
                with self._bounded(system):
                    steps.extend(system.test_connection())
            if self._ended_early() and steps and steps[-1].state is StepState.FAILED:
                steps.append(self._early_step(steps))  # the step says only that it was cancelled
        except Exception as e:
            steps.append(self._early_step(steps) if self._ended_early() else _failed_step(e, steps, self._mask))
        else:
            if system is None:
                raise self._unsupported()
        states = {step.state for step in steps}
        worst_first = (StepState.FAILED, StepState.WARNING, StepState.PASSED)
        answer = self._mask.mask_json(
            {
                "state": next((one for one in worst_first if one in states), StepState.SKIPPED).value,
                "duration_ms": round((time.monotonic() - started) * 1000),
                "steps": [step.as_json() for step in steps],
            }
        )
        assert isinstance(answer, dict)
        return answer

    def list(self) -> dict[str, Any]:
        """A table whose name contains a secret is left out: its masked name would select nothing."""
        mask = self._mask
        try:
            system = self._connector.external_system(self._config)
            if system is None:
                raise self._unsupported()
            with self._bounded(system):
                found = system.data_collections()
        except Exception as e:
            if self._cancellation.is_cancelled:
                raise ConnectError("Listing the tables was cancelled") from e
            if self._timed_out.is_set():
                raise UnreachableError(f"Listing the tables took longer than {self._timeout_s:g} s, so it was cancelled") from e
            raise
        shown = [one for one in found[:MAX_COLLECTIONS] if mask.mask(one.name) == one.name and mask.mask(one.entry) == one.entry]
        return {
            "collections": [mask.mask_json(one.as_json()) for one in shown],
            "hidden": min(len(found), MAX_COLLECTIONS) - len(shown),
            "is_truncated": len(found) > MAX_COLLECTIONS,
            "keys": _capabilities(self._connector)["collection_keys"],
        }

    def _unsupported(self) -> UnsupportedError:
        return UnsupportedError(f"{_name(self._connector)} has no connection test for this configuration")

    @contextmanager
    def _bounded(self, system: ExternalSystem) -> Iterator[None]:
        """Cancels the system's calls when the time is over or nobody waits for the answer, and closes it."""
        canceller = threading.Thread(target=self._cancel_early, args=(system,), name="connection-test-deadline", daemon=True)
        canceller.start()
        try:
            yield
        finally:
            self._cancellation.end()
            canceller.join(_CANCELLER_JOIN_S)
            system.close()

    def _cancel_early(self, system: ExternalSystem) -> None:
        if not self._cancellation.wait(self._timeout_s):
            self._timed_out.set()
        elif not self._cancellation.is_cancelled:
            return
        system.cancel()

    def _ended_early(self) -> bool:
        return self._timed_out.is_set() or self._cancellation.is_cancelled

    def _early_step(self, steps: Sequence[ConnectionStep]) -> ConnectionStep:
        after = f" after step {steps[-1].name}" if steps else ""
        if self._cancellation.is_cancelled:
            return ConnectionStep("Cancellation", findings=(error_finding("cancelled", f"The test was cancelled{after}"),))
        finding = error_finding(
            "timed-out",
            f"The system did not answer within {self._timeout_s:g} s{after}, so the test was cancelled",
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
