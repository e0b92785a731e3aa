"""Questions of REST about the system behind a configuration: resolves references, asks an executor, and masks secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask, mask_error
from worker.executor import Executor
from worker.model import SystemQuestion


def ask_about_system(
    executor: Executor, configs: ResolvedConfigs, mask: SecretMask, config: Mapping[str, str | None], question: SystemQuestion
) -> dict[str, Any]:
    """As :meth:`worker.herder.ExternalSystemOperations.external_system`. A table whose name contains a secret of the
    configuration is left out: its masked name would select nothing (promise 9)."""
    resolution = configs.resolve_for_validation(config)
    own = SecretMask()
    own.add_provided(resolution.secrets)
    for each in (own, mask):
        each.add(resolution.values)
    try:
        answer = executor.external_system(resolution.values, question)
    except Exception as e:
        raise mask_error(e, own) from e
    if question is SystemQuestion.DATA_COLLECTIONS:
        found = answer["collections"]
        shown = [one for one in found if own.mask(one["name"]) == one["name"] and own.mask(one["entry"]) == one["entry"]]
        answer = {**answer, "collections": shown, "hidden": answer["hidden"] + len(found) - len(shown)}
    masked = own.mask_json(answer)
    assert isinstance(masked, dict)
    return masked
