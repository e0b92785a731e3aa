"""What a worker has to know of plugins, asked of the processes that can load them: the control process does not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any

from connect.errors import BadRequestError, ConfigError, ConnectError, PluginNotFoundError
from worker.config.isolation import isolation_of
from worker.config.plugin_path import checked_environment
from worker.executor import ConnectorFacts
from worker.executors.channel import ChannelClosedError
from worker.executors.messages import facts_of_plain, json_objects
from worker.executors.process_registry import Processes

_ANSWER_S = 75.0
"""What a plugin may take to answer a question of REST, which gives up after 90 seconds."""


class PluginQuestions:
    """Each question waits for its own answer and no other. Safe from any thread."""

    def __init__(self, processes: Processes, environments: Sequence[Path]) -> None:
        """``environments`` are those of the worker's ``plugin.path``."""
        self._processes = processes
        self._environments = environments
        self._facts: dict[tuple[str, Path | None], ConnectorFacts] = {}

    def facts(self, class_name: str, environment: str | None, timeout_s: float = _ANSWER_S) -> ConnectorFacts:
        """As :meth:`worker.executor.Executor.facts`. Without an environment, a class that the worker does not have is looked
        for in all that it lists."""
        if environment is not None:
            return self._facts_in(checked_environment(environment, self._environments), class_name, timeout_s)
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
            asked = self._processes.for_question(environment).ask("facts", class_name=class_name)
            found = self._facts[class_name, environment] = facts_of_plain(_answer(asked, timeout_s))
        return found

    def validate(self, config: Mapping[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
        """As :meth:`worker.executor.Executor.validate`."""
        try:
            environment = isolation_of(values, self._environments).environment
        except ConfigError as e:
            raise BadRequestError(e.message) from e  # where the plugin would be asked is not known
        asked = self._processes.for_question(environment).ask("validate", config=config, values=values)
        answer = _answer(asked, _ANSWER_S)
        if not isinstance(answer, dict) or not isinstance(answer.get("configs"), list):
            raise ConnectError("The executor gave an answer to a validation that is none")
        return answer

    def plugins(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """As :meth:`worker.executor.Executor.plugins`."""
        return json_objects(_answer(self._processes.first.ask("plugins", connectors_only=connectors_only), _ANSWER_S))

    def plugin_config(self, plugin: str, version: str | None) -> list[dict[str, Any]]:
        """As :meth:`worker.executor.Executor.plugin_config`."""
        return json_objects(_answer(self._processes.first.ask("plugin_config", plugin=plugin, version=version), _ANSWER_S))


def _answer(asked: Future[Any], timeout_s: float) -> Any:
    try:
        return asked.result(timeout_s)
    except FutureTimeout as e:
        raise ConnectError(f"A plugin did not answer within {timeout_s:g} s") from e
    except ChannelClosedError as e:
        raise ConnectError("The executor that was to answer has ended; code of a plugin may have ended it") from e
