"""Questions of REST about the system behind a configuration, which an executor answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.cancellation import Cancellation
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import SystemQuestion
from worker.operations.config_questions import ask_about_config


def ask_about_system(
    executor: Executor,
    configs: ResolvedConfigs,
    mask: SecretMask,
    config: Mapping[str, str | None],
    question: SystemQuestion,
    cancellation: Cancellation,
) -> dict[str, Any]:
    """As :meth:`worker.herder.ExternalSystemOperations.external_system`. The executor masks the answer: only it knows which keys
    of the class are secret."""
    answer, _ = ask_about_config(
        configs, mask, config, lambda found: executor.external_system(found.values, question, found.secrets, cancellation)
    )
    return answer
