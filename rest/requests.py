"""Parses request bodies by the rules of Apache Connect's JSON reader.

A configuration maps strings to strings. Numbers and booleans become strings as written (``1.0`` stays ``1.0``, recording
config-put-numbers), null stays null, and lists and objects are rejected, as is anything after the first JSON value. An empty body
is null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import Depends
from starlette.requests import Request

from connect.errors import BadRequestError
from rest.errors import UnreadableBodyError
from rest.responses import JSON_TYPE
from worker.model import OffsetEntry, TargetState

T = TypeVar("T")

Config = dict[str, str | None]

MAX_NUMBER = 2**31 - 1
"""Largest number of a task or partition."""


class UntypedBodyError(Exception):
    """A required body has no Content-Type, or a range such as ``*/*``: 415 with a Content-Type (recording
    create-no-content-type)."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of ``POST /connectors``."""

    name: str
    config: Config
    initial_state: TargetState | None


def _refuse_constant(text: str) -> Any:
    raise UnreadableBodyError(f"Malformed JSON: {text} is not a JSON value")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise UnreadableBodyError(f"Malformed JSON: {text} is too large for a number of 64 bits")
    return number


# Numbers keep their text: 1e3 in a configuration must not become 1000.0.
_decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)
_number_decoder = json.JSONDecoder(parse_float=_finite, parse_constant=_refuse_constant)


def media_type(content_type: str) -> str:
    """Returns a Content-Type without its parameters."""
    return content_type.split(";", 1)[0].strip().lower()


def query_number(name: str, text: str, default: T, maximum: int = MAX_NUMBER) -> int | T:
    """Returns the number in a query parameter; ``default`` if it is empty. Raises BadRequestError."""
    digits = text.strip()
    if not digits:
        return default
    # The length first: Python refuses to convert thousands of digits with an error of its own.
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(maximum)) or int(digits) > maximum:
        raise BadRequestError(f"The query parameter {name} is '{text}'; expected a number from 0 to {maximum}")
    return int(digits)


async def read_json(request: Request, decoder: json.JSONDecoder = _decoder) -> Any:
    """Returns the body's JSON value with numbers as text; None for an empty body."""
    body = await request.body()
    if not body.strip():
        return None
    if media_type(request.headers.get("content-type") or "") != JSON_TYPE:
        raise UntypedBodyError
    try:
        return decoder.decode(body.decode("utf-8-sig"))
    except UnicodeDecodeError as e:
        raise UnreadableBodyError(f"Malformed JSON: the body is not UTF-8 (byte {e.start})") from e
    except json.JSONDecodeError as e:
        raise UnreadableBodyError(f"Malformed JSON: {e.msg} (line {e.lineno}, column {e.colno})") from e


def _as_text(value: Any, where: str) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    kind = "an array" if isinstance(value, list) else "an object"
    raise UnreadableBodyError(f"Cannot read {where} as a string: it is {kind}")


def as_config(value: Any, where: str) -> Config:
    """Returns a JSON value that is a configuration; ``where`` names it in errors."""
    if value is None:
        raise UnreadableBodyError(f"{where} is null or missing; expected an object of strings")
    if not isinstance(value, dict):
        raise UnreadableBodyError(f"{where} is not an object of strings")
    return {key: _as_text(member, f'"{key}" of {where}') for key, member in value.items()}


async def read_config(request: Request) -> Config:
    """Returns a body that is a configuration."""
    return as_config(await read_json(request), "the connector configuration")


async def read_configs(request: Request) -> list[dict[str, str]]:
    """Returns a body that is a list of task configurations, without nulls."""
    body = await read_json(request)
    if not isinstance(body, list):
        raise UnreadableBodyError("The body is not an array of objects of strings")
    configs = [as_config(member, f"configuration {i}") for i, member in enumerate(body)]
    return [{key: value for key, value in config.items() if value is not None} for config in configs]


def _reject_unknown_fields(body: dict[str, Any], known: Sequence[str]) -> None:
    for key in body:
        if key not in known:
            listed = ", ".join(f'"{k}"' for k in known)
            raise UnreadableBodyError(f'Unrecognized field "{key}", not marked as ignorable (known properties: {listed})')


async def read_create_request(request: Request) -> CreateRequest:
    """Returns the body of a create request; the name is trimmed like in Java, and empty if missing."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise UnreadableBodyError('The body is not an object; expected {"name": ..., "config": {...}}')
    _reject_unknown_fields(body, ("config", "name", "initial_state"))
    name = _as_text(body.get("name"), '"name"') or ""
    initial = _as_text(body.get("initial_state"), '"initial_state"')
    return CreateRequest(
        name.strip(_JAVA_WHITESPACE),
        as_config(body.get("config"), '"config"'),
        None if initial is None else _target_state(initial),
    )


_JAVA_WHITESPACE = "".join(map(chr, range(0x21)))


def _target_state(text: str) -> TargetState:
    match text.upper():
        case "RUNNING":
            return TargetState.STARTED
        case "PAUSED":
            return TargetState.PAUSED
        case "STOPPED":
            return TargetState.STOPPED
    raise UnreadableBodyError(f'"initial_state" is {text}; expected RUNNING, PAUSED or STOPPED')


async def read_offsets(request: Request) -> list[OffsetEntry]:
    """Returns the body of ``PATCH /connectors/{connector}/offsets``; empty if it has no offsets, which the caller rejects.

    Nulls are accepted where Apache accepts them: for a partition, an offset, and the list, but not for an entry of the list
    (recordings offsets-patch-*).
    """
    body = await read_json(request, _number_decoder)
    if body is None:
        return []
    if not isinstance(body, dict):
        raise UnreadableBodyError('The body is not an object; expected {"offsets": [{"partition": {...}, "offset": {...}}]}')
    _reject_unknown_fields(body, ("offsets",))
    entries = body.get("offsets")
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise UnreadableBodyError('"offsets" is not an array of objects with "partition" and "offset"')
    return [_offset_entry(entry, i) for i, entry in enumerate(entries)]


def _offset_entry(entry: Any, index: int) -> OffsetEntry:
    if not isinstance(entry, dict):
        raise UnreadableBodyError(f'Entry {index} of "offsets" is not an object with "partition" and "offset"')
    _reject_unknown_fields(entry, ("partition", "offset"))
    for key in ("partition", "offset"):
        if not isinstance(entry.get(key), dict | None):
            raise UnreadableBodyError(f'"{key}" of entry {index} of "offsets" is not an object')
    return OffsetEntry(entry.get("partition"), entry.get("offset"))


ConfigBody = Annotated[Config, Depends(read_config)]
OffsetsBody = Annotated[list[OffsetEntry], Depends(read_offsets)]
CreateBody = Annotated[CreateRequest, Depends(read_create_request)]

_STRINGS = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
CONFIG_SCHEMA: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/json": {"schema": _STRINGS}}}}
"""OpenAPI description of a configuration."""

_OBJECT_OR_NULL = {"type": ["object", "null"], "additionalProperties": {"type": ["string", "number", "boolean", "null"]}}
OFFSETS_SCHEMA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["offsets"],
                    "additionalProperties": False,
                    "properties": {
                        "offsets": {
                            "type": "array",
                            "minItems": 1,
                            "items": {
                                "type": "object",
                                "additionalProperties": False,
                                "properties": {"partition": _OBJECT_OR_NULL, "offset": _OBJECT_OR_NULL},
                            },
                        }
                    },
                }
            }
        },
    }
}
"""OpenAPI description of offset changes."""

CREATE_SCHEMA: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["name", "config"],
                    "additionalProperties": False,
                    "properties": {
                        "name": {"type": "string"},
                        "config": _STRINGS,
                        "initial_state": {"enum": ["RUNNING", "PAUSED", "STOPPED", None]},
                    },
                }
            }
        },
    }
}
