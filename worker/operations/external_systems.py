"""Questions of REST about the system behind a configuration: asks an executor, and masks secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import SystemQuestion
from worker.operations.config_questions import ask_about_config


def ask_about_system(
    executor: Executor, configs: ResolvedConfigs, mask: SecretMask, config: Mapping[str, str | None], question: SystemQuestion
) -> dict[str, Any]:
    """As :meth:`worker.herder.ExternalSystemOperations.external_system`. A table whose name contains a secret of the
    configuration is left out: its masked name would select nothing (promise 9)."""
    answer, own = ask_about_config(configs, mask, config, lambda values: executor.external_system(values, question))
    if question is SystemQuestion.DATA_COLLECTIONS:
        found = answer["collections"]
        shown = [one for one in found if own.mask(one["name"]) == one["name"] and own.mask(one["entry"]) == one["entry"]]
        answer = {**answer, "collections": shown, "hidden": answer["hidden"] + len(found) - len(shown)}
    return cast("dict[str, Any]", own.mask_json(answer))
