"""Encodes values between the control process and an executor: JSON, with a tagged form for what JSON does not have.

Never pickle: whatever a plugin's process sends is data, and can do nothing in the process that reads it. Lists and tuples come
out as lists; everything else as it went in.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import Any

import orjson

from connect import errors
from connect.errors import ConfigError, ConnectError, DataError, NotLeaderError
from worker.error_text import encodable, text_of

_TAG = "$"
"""The one member of a tagged value begins with it, and so may keys of a mapping that has to be tagged for that."""
_INT64 = range(-(2**63), 2**63)


def encode(value: Any) -> bytes:
    """Raises DataError for anything but None, bool, int, float, str, bytes, lists and mappings with text as
    keys."""
    return orjson.dumps(_tagged(value))


def decode(data: bytes) -> Any:
    """Raises DataError for bytes that :func:`encode` did not make."""
    try:
        return _untagged(orjson.loads(data))
    except (orjson.JSONDecodeError, ValueError, TypeError, RecursionError) as e:
        raise DataError(f"not a message of an executor: {e}") from e


def _tagged(value: Any) -> Any:
    kind = type(value)
    if kind is str:
        return _tagged_text(value)
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if value in _INT64 else {"$int": str(value)}
    if kind is float:
        return value if math.isfinite(value) else {"$float": str(value)}
    if isinstance(value, list | tuple):
        return [_tagged(member) for member in value]
    if isinstance(value, Mapping):
        return _tagged_mapping(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return {"$bytes": base64.b64encode(value).decode()}
    for plain in (str, int, float):
        if isinstance(value, plain):  # an enum of text or numbers, say
            return _tagged(plain(value))
    raise DataError(f"{kind.__name__} cannot be sent to another process")


def _tagged_text(text: str) -> Any:
    # Python's text may hold half of a surrogate pair, which UTF-8 does not have.
    return text if text.isascii() or _is_unicode(text) else {"$text": base64.b64encode(_with_surrogates(text)).decode()}


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _with_surrogates(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _tagged_mapping(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    simple = {}
    for key, member in mapping.items():
        if not isinstance(key, str):
            raise DataError(f"a key of type {type(key).__name__} cannot be sent to another process")
        if key.startswith(_TAG) or not _is_unicode(key):
            return {"$map": [[_tagged_text(str(k)), _tagged(v)] for k, v in mapping.items()]}
        simple[key] = _tagged(member)
    return simple


def _untagged(value: Any) -> Any:
    if isinstance(value, list):
        return [_untagged(member) for member in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((tag, content),) = value.items()
        if tag.startswith(_TAG):
            return _of_tag(tag, content)
    return {key: _untagged(member) for key, member in value.items()}


def _of_tag(tag: str, content: Any) -> Any:
    match tag:
        case "$int":
            return int(content)
        case "$float":
            return float(content)
        case "$bytes":
            return base64.b64decode(content, validate=True)
        case "$text":
            return base64.b64decode(content, validate=True).decode("utf-8", "surrogatepass")
        case "$map":
            return {str(_untagged(key)): _untagged(member) for key, member in content}
        case _:
            raise ValueError(f"unknown tag {tag}")


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
