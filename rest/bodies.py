"""Request bodies, read by the rules of the JSON reader that Apache Connect uses.

A configuration is a map of text to text. Numbers and booleans become the text they were written as (``1.0`` stays ``1.0``,
recording config-put-numbers); null stays null; lists and objects are refused. What follows the first JSON value is not looked
at. An empty body is null.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends
from starlette.requests import Request

from rest.failures import UnreadableBodyError
from worker.herder import TargetState

Config = dict[str, str | None]


class UntypedBodyError(Exception):
    """A body without Content-Type where one is read: 415, with Content-Type (recording create-no-content-type)."""


@dataclass(frozen=True, slots=True)
class CreateRequest:
    """The body of ``POST /connectors``."""

    name: str
    config: Config
    initial_state: TargetState | None


def _refuse_constant(text: str) -> Any:
    raise UnreadableBodyError(f"Malformed JSON: {text} is not a JSON value")


# Numbers stay the text they were: 1e3 must not become 1000.0 on its way into a configuration.
_decoder = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=_refuse_constant)


async def read_json(request: Request) -> Any:
    """The first JSON value of the body, its numbers as text; None for an empty body."""
    body = await request.body()
    if not body.strip():
        return None
    if not request.headers.get("content-type"):
        raise UntypedBodyError
    try:
        return _decoder.raw_decode(body.decode().lstrip())[0]
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


def _as_config(value: Any, where: str) -> Config:
    if value is None:
        raise UnreadableBodyError(f"{where} is null or missing; expected an object of strings")
    if not isinstance(value, dict):
        raise UnreadableBodyError(f"{where} is not an object of strings")
    return {key: _as_text(member, f'"{key}" of {where}') for key, member in value.items()}


async def read_config(request: Request) -> Config:
    """A body that is a configuration."""
    return _as_config(await read_json(request), "the connector configuration")


def _only_known(body: dict[str, Any], known: Sequence[str]) -> None:
    for key in body:
        if key not in known:
            listed = ", ".join(f'"{k}"' for k in known)
            raise UnreadableBodyError(f'Unrecognized field "{key}", not marked as ignorable (known properties: {listed})')


async def read_create_request(request: Request) -> CreateRequest:
    """The body of a create call; the name is trimmed as Java trims, a missing one is empty."""
    body = await read_json(request)
    if not isinstance(body, dict):
        raise UnreadableBodyError('The body is not an object; expected {"name": ..., "config": {...}}')
    _only_known(body, ("config", "name", "initial_state"))
    name = _as_text(body.get("name"), '"name"') or ""
    initial = _as_text(body.get("initial_state"), '"initial_state"')
    return CreateRequest(
        name.strip(_JAVA_BLANKS),
        _as_config(body.get("config"), '"config"'),
        None if initial is None else _target_state(initial),
    )


_JAVA_BLANKS = "".join(map(chr, range(0x21)))


def _target_state(text: str) -> TargetState:
    match text.upper():
        case "RUNNING":
            return TargetState.STARTED
        case "PAUSED":
            return TargetState.PAUSED
        case "STOPPED":
            return TargetState.STOPPED
    raise UnreadableBodyError(f'"initial_state" is {text}; expected RUNNING, PAUSED or STOPPED')


ConfigBody = Annotated[Config, Depends(read_config)]
CreateBody = Annotated[CreateRequest, Depends(read_create_request)]

_STRINGS = {"type": "object", "additionalProperties": {"type": ["string", "null"]}}
CONFIG_SCHEMA: dict[str, Any] = {"requestBody": {"required": True, "content": {"application/json": {"schema": _STRINGS}}}}
"""What OpenAPI tells about a body that is a configuration."""

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
