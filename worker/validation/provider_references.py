"""The answer of validation for a configuration with references to config providers.

Apache's worker shows what is behind a reference, in values and in errors. Here that is secret (promise 9): the answer shows the
reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from connect.config.parsing import HIDDEN


def show_references(
    answer: dict[str, Any], given: Mapping[str, Any], resolved: Mapping[str, str | None], mask: Callable[[str], str]
) -> dict[str, Any]:
    """The answer with references in place of what they stand for; ``mask`` takes secrets out of the errors of other keys."""
    if given.get("connector.class") is not None:
        answer["name"] = given["connector.class"]
    for config in answer["configs"]:
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
    return answer


def _with_reference(error: str, secret: str, reference: str) -> str:
    """An error of the key itself, which repeats the value as it was given or trimmed."""
    for text in (secret, secret.strip()):
        if text and text in error:
            return error.replace(text, reference)
    return error
