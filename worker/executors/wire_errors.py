"""Encodes errors between the control process and an executor: the name of the class and the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect import errors
from connect.errors import ConfigError, ConnectError, NotLeaderError
from worker.error_text import encodable, text_of

_CLASSES: dict[str, type[ConnectError]] = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, ConnectError) and found is not NotLeaderError
}


def error_to_wire(error: BaseException) -> dict[str, Any]:
    """The encoded error. Of an error outside our tree, only the message crosses."""
    kind = next((base.__name__ for base in type(error).__mro__ if base.__name__ in _CLASSES), None)
    if isinstance(error, ConnectError) and kind is not None:
        told: dict[str, Any] = {"class": kind, "message": encodable(error.message)}
        if isinstance(error, ConfigError) and error.key is not None:
            told["key"] = error.key
        return told
    return {"class": "ConnectError", "message": text_of(error) or type(error).__name__}


def error_from_wire(told: Mapping[str, Any]) -> ConnectError:
    """The error to raise here; a ConnectError if the class is unknown."""
    kind = _CLASSES.get(str(told.get("class")), ConnectError)
    message = str(told.get("message"))
    if issubclass(kind, ConfigError):
        key = told.get("key")
        return kind(message, key=None if key is None else str(key))
    try:
        return kind(message)
    except TypeError:
        return ConnectError(message)
