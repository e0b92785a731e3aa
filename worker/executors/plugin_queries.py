"""Queries about plugins, answered by processes that can load them; the control process never does."""

from __future__ import annotations

import itertools
import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from connect.errors import BadRequestError, ConfigError, ConnectError, PluginNotFoundError
from worker.cancellation import Cancellation
from worker.config.isolation import parse_isolation
from worker.config.plugin_path import validate_environment
from worker.executor import ConnectorFacts, ConnectorSpec
from worker.executors.channel import ChannelClosedError
from worker.executors.messages import connector_to_plain, facts_of_plain, json_objects
from worker.executors.process_registry import ProcessRegistry
from worker.model import PreviewRequest, SystemQuestion

_QUERY_TIMEOUT_S = 75.0
"""How long a plugin may take to answer; REST requests time out after 90 seconds."""

_PREVIEW_TIMEOUT_S = 30.0
"""How long a preview may take, with reading its records from Kafka."""

_SYSTEM_TIMEOUT_S = 45.0
"""How long a question about an external system may take: longer than its own time limit, after which it is cancelled."""


class PluginQueries:
    """Queries do not wait for each other. Safe from any thread."""

    def __init__(self, processes: ProcessRegistry, environments: Sequence[Path]) -> None:
        """``environments`` are those of the worker's ``plugin.path``."""
        self._processes = processes
        self._environments = environments
        self._numbers = itertools.count(1)
        self._facts: dict[tuple[str, Path | None], ConnectorFacts] = {}

    def facts(self, class_name: str, environment: str | None, timeout_s: float = _QUERY_TIMEOUT_S) -> ConnectorFacts:
        """As :meth:`worker.executor.Executor.facts`. Without an environment, a class that the worker does not have is
        looked up in all environments of ``plugin.path``."""
        if environment is not None:
            return self._facts_in(validate_environment(environment, self._environments), class_name, timeout_s)
        try:
            return self._facts_in(None, class_name, timeout_s)
        except PluginNotFoundError:
            for one in self._environments:
                try:
                    return self._facts_in(one, class_name, timeout_s)
                except ConnectError:
                    continue
            raise

    def _facts_in(self, environment: Path | None, class_name: str, timeout_s: float) -> ConnectorFacts:
        found = self._facts.get((class_name, environment))
        if found is None:
            asked = self._processes.for_query(environment).call("facts", class_name=class_name)
            found = self._facts[class_name, environment] = facts_of_plain(_answer(asked, timeout_s))
        return found

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        """As :meth:`worker.executor.Executor.validate`."""
        asked = self._processes.for_query(self._environment(values)).call("validate", config=config, values=values)
        answer = _answer(asked, _QUERY_TIMEOUT_S)
        if not isinstance(answer, dict) or not isinstance(answer.get("configs"), list):
            raise ConnectError("The executor returned an invalid validation result")
        return answer

    def preview(self, values: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        """As :meth:`worker.executor.Executor.preview`."""
        asked = self._processes.for_query(self._environment(values)).call("preview", values=values, request=request.to_plain())
        answer = _answer(asked, _PREVIEW_TIMEOUT_S)
        if not isinstance(answer, dict) or not isinstance(answer.get("records"), list):
            raise ConnectError("The executor returned an invalid preview")
        return answer

    def external_system(
        self, values: Mapping[str, str | None], question: SystemQuestion, secrets: Collection[str], cancellation: Cancellation
    ) -> dict[str, Any]:
        """As :meth:`worker.executor.Executor.external_system`."""
        process = self._processes.for_query(self._environment(values))
        number = next(self._numbers)
        asked = process.call("external_system", values=values, question=question.value, secrets=sorted(secrets), number=number)
        asked.add_done_callback(lambda _: cancellation.end())
        asked_at = time.monotonic()
        cancellation.wait(_SYSTEM_TIMEOUT_S)
        if cancellation.is_cancelled:
            process.notify("cancel_query", number=number)
        (answer,) = json_objects([_answer(asked, _SYSTEM_TIMEOUT_S, time.monotonic() - asked_at)])
        return answer

    def _environment(self, values: Mapping[str, str | None]) -> Path | None:
        try:
            return parse_isolation(values, self._environments).environment
        except ConfigError as e:
            raise BadRequestError(e.message) from e  # it is unknown which process could answer

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """As :meth:`worker.executor.Executor.plugins`."""
        return json_objects(_answer(self._processes.first.call("plugins", connectors_only=connectors_only), _QUERY_TIMEOUT_S))

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        """As :meth:`worker.executor.Executor.plugin_config`."""
        return json_objects(
            _answer(self._processes.first.call("plugin_config", plugin=plugin, version=version), _QUERY_TIMEOUT_S)
        )

    def dead_letters(self, spec: ConnectorSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        """As :meth:`worker.executor.Executor.dead_letters`."""
        asked = self._processes.for_query(self._environment(spec.config)).call(
            "dead_letters", spec=connector_to_plain(spec), request=dict(request)
        )
        (found,) = json_objects([_answer(asked, _QUERY_TIMEOUT_S)])
        return found


def _answer(asked: Future[Any], timeout_s: float, waited_s: float = 0.0) -> Any:
    try:
        return asked.result(max(0.0, timeout_s - waited_s))
    except FutureTimeout as e:
        raise ConnectError(f"A plugin did not answer within {timeout_s:g} s") from e
    except ChannelClosedError as e:
        raise ConnectError("The executor exited before it answered; code of a plugin may have ended it") from e
