"""Previews of a configuration for REST: resolves its references, has an executor run the records, and masks secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import PreviewRequest
from worker.validation.config_validator import mask_error


def preview_config(
    executor: Executor, configs: ResolvedConfigs, mask: SecretMask, config: Mapping[str, str | None], request: PreviewRequest
) -> dict[str, Any]:
    """Returns what the transformations of a configuration do to records. Neither the answer nor an error has secrets of the
    configuration (promise 9), such as one that a transformation inserts."""
    resolution = configs.resolve_for_validation(config)
    own = SecretMask()
    own.add_provided(resolution.secrets)
    for each in (own, mask):
        each.add(resolution.values)
    try:
        answer = executor.preview(resolution.values, request)
    except Exception as e:
        raise mask_error(e, own) from e
    return cast("dict[str, Any]", own.mask_json(answer))
