"""Both herders' gate for connector configurations: resolves config provider references, validates, and keeps secrets out.

:func:`worker.validation.validate.validate` builds the response of REST validation in an executor. This module adds what Apache's
response leaves out: the check of Sluice's own keys, and promise 9 (Apache shows values of config providers; we show references).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.definition import ConfigKey
from connect.config.parsing import HIDDEN, parse_value
from connect.errors import BadRequestError, ConfigError
from worker.config.extension_keys import CONNECTOR_EXTENSION_KEYS
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secret_keys import find_secret_keys
from worker.config.secrets import SecretMask, mask_error, secrets_in_url
from worker.executor import Executor
from worker.validation.response import create_error_message


class ConfigValidator:
    """Validates configurations through :meth:`worker.executor.Executor.validate`. Safe for use from any thread."""

    def __init__(self, executor: Executor, resolved_configs: ResolvedConfigs, mask: SecretMask) -> None:
        self._executor = executor
        self._resolved_configs = resolved_configs
        self._mask = mask

    def validate(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str | None]]:
        """Returns the validation response, and the configuration with references resolved.

        The worker's mask learns the secrets of the configuration. Neither the response nor an error contains them (promise 9).
        """
        resolution = self._resolved_configs.resolve_for_validation(config)
        resolved = resolution.values
        self._mask.add(resolved)
        # A mask for this configuration alone: a short secret of another connector must not garble the response.
        own = SecretMask()
        own.add_provided(resolution.secrets)
        own.add(resolved)
        try:
            response = self._executor.validate(config, resolved)
        except Exception as e:
            raise mask_error(e, own) from e
        for mask in (own, self._mask):
            mask.add(resolved, find_secret_keys(response))
        return restore_references_in_response(response, config, resolved, own.mask), resolved

    def require_valid(self, config: Mapping[str, Any]) -> dict[str, str | None]:
        """Returns the resolved configuration. Raises BadRequestError with Apache's list of errors if it is invalid."""
        response, resolved = self.validate(config)
        if message := create_error_message(_add_extension_key_errors(response, resolved)):
            raise BadRequestError(self._mask.mask(message))
        return resolved


def _add_extension_key_errors(response: dict[str, Any], resolved: Mapping[str, str | None]) -> dict[str, Any]:
    errors = [error for key in CONNECTOR_EXTENSION_KEYS if (error := _check_value(key, resolved.get(key.name))) is not None]
    return {
        **response,
        "error_count": response["error_count"] + len(errors),
        "configs": [*response["configs"], *({"value": {"errors": [error]}} for error in errors)],
    }


def _check_value(key: ConfigKey, given: str | None) -> str | None:
    if given is None:
        return None
    try:
        value = parse_value(key.name, given, key.type)
        if key.validator is not None:
            key.validator(key.name, value)
    except ConfigError as e:
        return e.message
    return None


def restore_references_in_response(
    response: dict[str, Any], given: Mapping[str, Any], resolved: Mapping[str, str | None], mask: Callable[[str], str]
) -> dict[str, Any]:
    """Replaces resolved values in the response with the given references; ``mask`` hides secrets in errors of other keys."""
    if given.get("connector.class") is not None:
        response["name"] = given["connector.class"]
    for config in response["configs"]:
        value = config["value"]
        if value is None:
            continue
        name = value["name"]
        reference, secret = given.get(name), resolved.get(name)
        if secret is not None and reference != secret:
            if value["value"] not in (None, HIDDEN):
                value["value"] = reference
            value["errors"] = [_with_reference(error, secret, str(reference)) for error in value["errors"]]
        value["errors"] = [mask(error) for error in value["errors"]]
        if isinstance(shown := value.get("value"), str):
            for text in secrets_in_url(shown):
                shown = shown.replace(text, HIDDEN)
            value["value"] = shown
    return response


def _with_reference(error: str, secret: str, reference: str) -> str:
    """Replaces the key's own value, which its error repeats as given or trimmed."""
    for text in (secret, secret.strip()):
        if text and text in error:
            return error.replace(text, reference)
    return error
