"""Configurations looked through before they are used: the answer of validation, with values of config providers kept secret."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.config.definition import ConfigKey
from connect.config.parsing import parse_value
from connect.errors import BadRequestError, ConfigError, ConnectError, NotFoundError
from worker.config.resolved_config import ProvidedValues
from worker.config.secret_keys import secret_keys_of
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.validation import create_error_message, show_references
from worker.validation.extension_keys import OWN_KEYS


class ConfigCheck:
    """Both herders' way to :meth:`worker.executor.Executor.validate`. Safe from any thread."""

    def __init__(self, executor: Executor, values: ProvidedValues, mask: SecretMask) -> None:
        self._executor = executor
        self._values = values
        self._mask = mask

    def answer(self, config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str | None]]:
        """The answer of validation, and the configuration with the values of config providers.

        Secrets that it holds are known to the mask from then on, and neither the answer nor an error tells them (promise 9).
        """
        found = self._values.for_check(config)
        values = found.values
        self._mask.add(values)
        # The answer is about this configuration alone: a short secret of another connector must not blot out its words.
        own = SecretMask()
        own.add_provided(found.secrets)
        own.add(values)
        try:
            answer = self._executor.validate(config, values)
        except Exception as e:
            raise masked_error(e, own) from e
        for mask in (own, self._mask):
            mask.add(values, secret_keys_of(answer))
        return show_references(answer, config, values, own.mask), values

    def require_valid(self, config: Mapping[str, Any]) -> dict[str, str | None]:
        """The values of a configuration that may be used. Raises BadRequestError with Kafka's list of errors."""
        answer, values = self.answer(config)
        if message := create_error_message(_with_own_keys(answer, values)):
            raise BadRequestError(self._mask.mask(message))
        return values


def _with_own_keys(answer: dict[str, Any], values: Mapping[str, str | None]) -> dict[str, Any]:
    """The answer, and what is wrong with keys that Apache's workers do not have, which validation over REST does not list."""
    problems = [problem for key in OWN_KEYS if (problem := _problem(key, values.get(key.name))) is not None]
    return {
        **answer,
        "error_count": answer["error_count"] + len(problems),
        "configs": [*answer["configs"], *({"value": {"errors": [problem]}} for problem in problems)],
    }


def _problem(key: ConfigKey, given: str | None) -> str | None:
    if given is None:
        return None
    try:
        value = parse_value(key.name, given, key.type)
        if key.validator is not None:
            key.validator(key.name, value)
    except ConfigError as e:
        return e.message
    return None


def masked_error(error: Exception, mask: SecretMask) -> Exception:
    """The error as REST may show it: itself, or where its message holds a secret one of its kind without (promise 9)."""
    told = error.message if isinstance(error, ConnectError) else str(error) or type(error).__name__
    message = mask.mask(told)
    if message == told:
        return error
    kind = next((kind for kind in (BadRequestError, ConfigError, NotFoundError) if isinstance(error, kind)), ConnectError)
    return kind(message)
