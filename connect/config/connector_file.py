"""Connector configurations in files, as the standalone worker takes them on its command line.

Three forms, as in Apache's: a flat JSON object with ``name`` among its keys; the JSON of a create request (``name``, ``config``,
``initial_state``); Java properties.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from json.decoder import scanstring  # type: ignore[attr-defined]  # documented by its use only: the stubs leave it out
from pathlib import Path
from typing import Any

from connect.config.properties import read_properties
from connect.errors import ConfigError

NAME = "name"
_COLON = re.compile(r"\s*:")
INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """One connector as a file describes it. A null of a JSON file stays None."""

    path: str
    name: str
    config: Mapping[str, str | None]
    initial_state: str | None = None
    """``RUNNING``, ``PAUSED`` or ``STOPPED``; None leaves it to the worker."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Where each key stands, counted from 1."""

    def location(self, key: str | None = None) -> str:
        """``file:line`` of a key, or the file alone."""
        line = None if key is None else self.lines.get(key)
        return self.path if line is None else f"{self.path}:{line}"


def read_connector_file(path: str | Path) -> ConnectorFile:
    """The connector of a file. Raises ConfigError that begins with the file, and the line where one is to blame."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot read the file: {e.strerror or e}") from e
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return _from_json(data, str(path))
    properties = read_properties(path)
    lines = {entry.key: entry.line for entry in properties.entries}
    return _named(ConnectorFile(str(path), properties.get(NAME, ""), dict(properties), None, lines))


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
    lines = _lines_of_keys(text)
    config = node.get("config")
    if not isinstance(config, dict):
        return _named(ConnectorFile(path, _name_of(node), _texts(node, path, lines), None, lines))
    name, own = _name_of(node), config.get(NAME)
    if own is not None and own != name:
        raise ConfigError(
            f"{path}: Connector name configuration in 'config' doesn't match the one specified in 'name': {own} and {name}"
        )
    state = node.get("initial_state")
    if state is not None and str(state).upper() not in INITIAL_STATES:
        shown = ", ".join(INITIAL_STATES)
        raise ConfigError(f"{path}:{lines.get('initial_state', 1)}: Unknown initial_state {state}, expected one of {shown}")
    file = ConnectorFile(path, name, {NAME: name, **_texts(config, path, lines)}, state and state.upper(), lines)
    return _named(file)


def _name_of(node: Mapping[str, Any]) -> str:
    name = node.get(NAME)
    return name if isinstance(name, str) else ""


def _named(file: ConnectorFile) -> ConnectorFile:
    if not file.name:
        raise ConfigError(f"Connector configuration at '{file.path}' is missing the mandatory 'name' configuration", key=NAME)
    return file


def _texts(node: Mapping[str, Any], path: str, lines: Mapping[str, int]) -> dict[str, str | None]:
    config: dict[str, str | None] = {}
    for key, value in node.items():
        if isinstance(value, dict | list):
            kind = "an object" if isinstance(value, dict) else "a list"
            at = f"{path}:{lines.get(key, 1)}"
            raise ConfigError(f"{at}: Value of {key} is {kind}, expected text, a number or a boolean", key=key)
        config[key] = ("true" if value else "false") if isinstance(value, bool) else value
    return config


def _lines_of_keys(text: str) -> dict[str, int]:
    """The line of each member's name. Names are told from values by the colon that follows; of two the last counts."""
    lines: dict[str, int] = {}
    position, counted, line = 0, 0, 1
    while (start := text.find('"', position)) >= 0:
        line += text.count("\n", counted, start)
        counted = start
        name, position = scanstring(text, start + 1, False)
        if _COLON.match(text, position):
            lines[name] = line
    return lines
