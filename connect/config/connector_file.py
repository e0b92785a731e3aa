"""Connector configurations in files, as the standalone worker takes them on its command line.

Three forms, as in Apache's: a flat JSON object with ``name`` among its keys; the JSON of a create request (``name``, ``config``,
``initial_state``); Java properties.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect.config.json_members import Member, members_of
from connect.config.properties import read_properties
from connect.errors import ConfigError

NAME = "name"
INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")


@dataclass(frozen=True, slots=True)
class Repeated:
    """A key that is written twice. The later one counts."""

    key: str
    line: int
    """Of the one that does not count."""
    later_line: int


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One connector as a file describes it. A null of a JSON file stays None."""

    path: str
    name: str
    """Empty when the file gives none."""
    config: Mapping[str, str | None]
    initial_state: str | None = None
    """``RUNNING``, ``PAUSED`` or ``STOPPED``; None leaves it to the worker."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where each key stands, counted from 1."""
    repeated: tuple[Repeated, ...] = ()

    def location(self, key: str | None = None) -> str:
        """``file:line`` of a key, or the file alone."""
        line = None if key is None else self.lines.get(key)
        return self.path if line is None else f"{self.path}:{line}"


def read_connector_file(path: str | Path) -> ConnectorFile:
    """The connector of a file. Raises ConfigError that begins with the file, and the line where one is to blame."""
    file = parse_connector_file(path)
    if not file.name:
        raise ConfigError(f"Connector configuration at '{file.path}' is missing the mandatory 'name' configuration", key=NAME)
    return file


def parse_connector_file(path: str | Path) -> ConnectorFile:
    """The same, but the file may lack a name: what it holds need not be a whole connector."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot read the file: {e.strerror or e}") from e
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return _from_json(data, str(path))
    properties = read_properties(path)
    lines = {entry.key: entry.line for entry in properties.entries}
    repeated = tuple(Repeated(entry.key, entry.line, later.line) for entry, later in properties.duplicates())
    return ConnectorFile(str(path), properties.get(NAME, ""), dict(properties), None, lines, repeated)


def _from_json(data: bytes, path: str) -> ConnectorFile:
    try:
        text = data.decode("utf-8-sig")
        # Numbers keep the text they are written with, for that is what a configuration holds.
        node = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as e:
        raise ConfigError(f"{path}:{e.lineno}: not JSON at column {e.colno}: {e.msg}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: a JSON file must be UTF-8: {e.reason} at byte {e.start}") from e
    except RecursionError as e:
        raise ConfigError(f"{path}: the JSON is nested too deeply") from e
    members = list(members_of(text))
    config = node.get("config")
    if not isinstance(config, dict):
        lines, repeated = _places(members, ())
        return ConnectorFile(path, _name_of(node), _texts(node, path, lines), None, lines, repeated)
    outer, _ = _places(members, ())
    lines, repeated = _places(members, ("config",))
    lines = {NAME: outer.get(NAME, 1), **lines}
    name, own = _name_of(node), config.get(NAME)
    if own is not None and own != name:
        raise ConfigError(
            f"{path}: Connector name configuration in 'config' doesn't match the one specified in 'name': {own} and {name}"
        )
    state = node.get("initial_state")
    if state is not None and str(state).upper() not in INITIAL_STATES:
        shown = ", ".join(INITIAL_STATES)
        raise ConfigError(f"{path}:{outer.get('initial_state', 1)}: Unknown initial_state {state}, expected one of {shown}")
    named = {NAME: name} if name else {}
    return ConnectorFile(path, name, {**named, **_texts(config, path, lines)}, state and state.upper(), lines, repeated)


def _name_of(node: Mapping[str, Any]) -> str:
    name = node.get(NAME)
    return name if isinstance(name, str) else ""


def _texts(node: Mapping[str, Any], path: str, lines: Mapping[str, int]) -> dict[str, str | None]:
    config: dict[str, str | None] = {}
    for key, value in node.items():
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "a list"
            at = f"{path}:{lines.get(key, 1)}"
            raise ConfigError(f"{at}: Value of {key} is {kind}, expected text, a number or a boolean", key=key)
        config[key] = ("true" if value else "false") if isinstance(value, bool) else value
    return config


def _places(members: Iterable[Member], objects: tuple[str, ...]) -> tuple[dict[str, int], tuple[Repeated, ...]]:
    """The line of each key of one object, and the keys that it has twice."""
    lines: dict[str, int] = {}
    repeated = []
    for member in members:
        if member.objects == objects:
            if member.name in lines:
                repeated.append(Repeated(member.name, lines[member.name], member.line))
            lines[member.name] = member.line
    return lines, tuple(repeated)
