"""Previews of a configuration for REST: has an executor run the records, and masks secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import PreviewRequest
from worker.operations.config_questions import ask_about_config


def preview_config(
    executor: Executor, configs: ResolvedConfigs, mask: SecretMask, config: Mapping[str, str | None], request: PreviewRequest
) -> dict[str, Any]:
    """Returns what the transformations of a configuration do to records. Neither the answer nor an error has secrets of the
    configuration (promise 9), such as one that a transformation inserts."""
    answer, own = ask_about_config(configs, mask, config, lambda found: executor.preview(found.values, request))
    return cast("dict[str, Any]", own.mask_json(answer))
