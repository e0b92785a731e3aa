"""Questions to an executor about a configuration that need not be that of a connector."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.providers.references import Resolution
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask, mask_error


def ask_about_config(
    configs: ResolvedConfigs,
    mask: SecretMask,
    config: Mapping[str, str | None],
    ask: Callable[[Resolution], dict[str, Any]],
) -> tuple[dict[str, Any], SecretMask]:
    """Resolves references, and returns what ``ask`` answers about the result, with a mask of their secrets.

    ``mask`` learns the secrets too. The answer may still contain them; an error does not (promise 9).
    """
    resolution = configs.resolve_for_validation(config)
    own = SecretMask()
    own.add_provided(resolution.secrets)
    for each in (own, mask):
        each.add(resolution.values)
    try:
        return ask(resolution), own
    except Exception as e:
        raise mask_error(e, own) from e
