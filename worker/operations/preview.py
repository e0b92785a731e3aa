"""Previews of a configuration for REST: resolves its references, has an executor run the records, and masks secrets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask, mask_error
from worker.executor import Executor
from worker.model import PreviewRequest


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
    masked = _masked(answer, own.mask)
    assert isinstance(masked, dict)
    return masked


def _masked(node: Any, mask: Callable[[str], str]) -> Any:
    """Promise 9: the texts of a JSON value, masked."""
    if isinstance(node, str):
        return mask(node)
    if isinstance(node, list):
        return [_masked(one, mask) for one in node]
    if isinstance(node, dict):
        return {key: _masked(one, mask) for key, one in node.items()}
    return node
