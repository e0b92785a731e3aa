"""Reads connector configuration files, the arguments of the standalone worker.

Like Apache, it accepts three formats: a flat JSON object with ``name`` among its keys; the JSON of a create request (``name``,
``config``, ``initial_state``); Java properties. Files that end with ``.yaml`` or ``.yml`` have either of the first two forms.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from connect.config.connector_yaml import read_yaml
from connect.config.properties import read_properties
from connect.errors import ConfigError

NAME = "name"
YAML_ENDINGS = (".yaml", ".yml")
_ENDINGS = (".properties", ".json", *YAML_ENDINGS)
_CONFIG_TEST = ".test.yaml"
INITIAL_STATES = ("RUNNING", "PAUSED", "STOPPED")
_STRING_DECODER = json.JSONDecoder(strict=False)
_COLON = re.compile(r"\s*:")
_NEXT = re.compile(r'["{}\[\]]')


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that occurs twice. The later one counts."""

    key: str
    line: int
    """The line of the one that does not count."""
    later_line: int


@dataclass(frozen=True, slots=True)
class ConnectorFile:
    """The connector that a file describes. A null in a JSON file is None."""

    path: str
    name: str
    """Empty if the file has none."""
    config: Mapping[str, str | None]
    initial_state: str | None = None
    """``RUNNING``, ``PAUSED``, or ``STOPPED``; None: the worker decides."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each key, counted from 1."""
    duplicates: tuple[DuplicateKey, ...] = ()

    def location(self, key: str | None = None) -> str:
        """Returns ``file:line`` of a key, or the file alone."""
        line = None if key is None else self.lines.get(key)
        return self.path if line is None else f"{self.path}:{line}"


@dataclass(frozen=True, slots=True)
class _Member:
    """The name of one member of one object in a JSON text."""

    objects: tuple[str, ...]
    """The path of the object that has the member: empty for the outermost. Objects in an array have the path of the array."""
    name: str
    line: int
    """Counted from 1."""


def read_connector_file(path: str | Path) -> ConnectorFile:
    """Reads the connector of a file. Raises ConfigError that starts with the file, and the line if there is one."""
    file = parse_connector_file(path)
    if not file.name:
        raise ConfigError(f"Connector configuration at '{file.path}' is missing the mandatory 'name' configuration", key=NAME)
    return file


def files_below(folder: Path) -> list[Path]:
    """Returns the files in a folder that can have connectors or workers, in order; not config tests and hidden ones."""
    found = (path for path in folder.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    return sorted(path for path in found if not any(_is_skipped(part) for part in path.relative_to(folder).parts))


def _is_skipped(name: str) -> bool:
    return name.startswith(".") or name == "node_modules" or name.endswith(_CONFIG_TEST)


def parse_connector_file(path: str | Path) -> ConnectorFile:
    """Reads a file that need not be a whole connector: it may lack the name. Raises ConfigError."""
    try:
        data = Path(path).read_bytes()
    except OSError as e:
        raise ConfigError(f"{path}: cannot read the file: {e.strerror or e}") from e
    if Path(path).suffix in YAML_ENDINGS:
        return _from_yaml(data, str(path))
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        return _from_json(data, str(path))
    properties = read_properties(path)
    lines = {entry.key: entry.line for entry in properties.entries}
    duplicates = tuple(DuplicateKey(entry.key, entry.line, later.line) for entry, later in properties.duplicates())
    return ConnectorFile(str(path), properties.get(NAME, ""), dict(properties), None, lines, duplicates)


def _from_json(data: bytes, path: str) -> ConnectorFile:
    try:
        text = data.decode("utf-8-sig")
        # Numbers remain text, because configuration values are text.
        node = json.loads(text, parse_int=str, parse_float=str, parse_constant=str)
    except json.JSONDecodeError as e:
        raise ConfigError(f"{path}:{e.lineno}: not JSON at column {e.colno}: {e.msg}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: a JSON file must be UTF-8: {e.reason} at byte {e.start}") from e
    except RecursionError as e:
        raise ConfigError(f"{path}: the JSON is nested too deeply") from e
    members = list(_find_members(text))
    return _from_node(node, path, members)


def _from_yaml(data: bytes, path: str) -> ConnectorFile:
    entries = read_yaml(data, path)
    members = [_Member((), one.key, one.line) for one in entries]
    nested = [one for outer in entries if isinstance(outer.value, tuple) for one in outer.value]
    members += [_Member(("config",), one.key, one.line) for one in nested]
    node = {
        outer.key: {one.key: one.value for one in outer.value} if isinstance(outer.value, tuple) else outer.value
        for outer in entries
    }
    return _from_node(node, path, members)


def _from_node(node: Mapping[str, Any], path: str, members: Sequence[_Member]) -> ConnectorFile:
    config = node.get("config")
    if not isinstance(config, dict):
        lines, duplicates = _key_lines(members, ())
        return ConnectorFile(path, _name_of(node), _texts(node, path, lines), None, lines, duplicates)
    outer, _ = _key_lines(members, ())
    lines, duplicates = _key_lines(members, ("config",))
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
    return ConnectorFile(path, name, {**named, **_texts(config, path, lines)}, state and state.upper(), lines, duplicates)


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


def _key_lines(members: Iterable[_Member], objects: tuple[str, ...]) -> tuple[dict[str, int], tuple[DuplicateKey, ...]]:
    """Returns the line of each key of one object, and its duplicate keys."""
    lines: dict[str, int] = {}
    duplicates = []
    for member in members:
        if member.objects == objects:
            if member.name in lines:
                duplicates.append(DuplicateKey(member.name, lines[member.name], member.line))
            lines[member.name] = member.line
    return lines, tuple(duplicates)


def _find_members(text: str) -> Iterator[_Member]:
    """Yields every member of every object in a JSON text, in order. The text must be valid JSON: nothing is checked here."""
    # For each open bracket, the name of the member that has it as value.
    names: list[str] = []
    last = ""
    position, counted, line = 0, 0, 1
    while (found := _NEXT.search(text, position)) is not None:
        position = found.end()
        match found[0]:
            case "{" | "[":
                names.append(last)
            case "}" | "]":
                last = names.pop()
            case _:
                line += text.count("\n", counted, found.start())
                counted = found.start()
                word, position = _STRING_DECODER.raw_decode(text, found.start())
                # A string is a name if a colon follows; otherwise it is a value.
                if _COLON.match(text, position):
                    last = word
                    yield _Member(tuple(names[1:]), word, line)
