"""Reads config test files: YAML with the line of every mapping, checked member by member."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from connect.errors import ConfigError
from worker.lint.suggestions import did_you_mean
from worker.preview.record_lines import MEMBERS

ENDING = ".test.yaml"
_FILE_MEMBERS = ("config", "worker", "lint", "tests")
_TEST_MEMBERS = ("name", "config", "input", "raw", "expect")
_RAW_MEMBERS = ("topic", "key", "value", "headers")
_EXPECT_MEMBERS = (
    "topic",
    "partition",
    "timestamp",
    "key",
    "value",
    "headers",
    "fields",
    "absent",
    "record",
    "dropped",
    "error",
    "message",
)
LINT_CHOICES = ("clean", "no errors")


class LineMapping(dict[str, Any]):
    """A mapping with its line and the line of each member."""

    def __init__(self, line: int) -> None:
        super().__init__()
        self.line = line
        self.lines: dict[str, int] = {}


@dataclass(frozen=True, slots=True)
class ConfigTest:
    """One config test."""

    name: str
    line: int
    inputs: Sequence[Any]
    is_raw: bool
    """Whether inputs are raw messages for the converters, or records."""
    expected: Sequence[Mapping[str, Any]]
    """One expectation for each input."""
    overrides: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConfigTestFile:
    """A test file with its tests."""

    path: str
    config: str
    """Path of the connector file."""
    worker: str | None
    lint: str | None
    lint_line: int
    tests: Sequence[ConfigTest]


def read_test_file(path: Path) -> ConfigTestFile:
    """Reads the tests of a file. Raises ConfigError with ``file:line``."""
    document = _load_yaml(path)
    if not isinstance(document, LineMapping):
        raise ConfigError(f"{path}:1: a test file must be a mapping with the member tests")
    _reject_unknown_members(document, _FILE_MEMBERS, path, "A test file")
    tests = document.get("tests", [])
    if not isinstance(tests, list) or not (tests or "lint" in document):
        raise ConfigError(f"{path}:{document.line}: tests must be a list of at least one test")
    lint = document.get("lint")
    if lint is not None and lint not in LINT_CHOICES:
        raise ConfigError(f"{path}:{document.lines['lint']}: lint is {lint!r}; expected {' or '.join(LINT_CHOICES)}")
    worker = document.get("worker")
    return ConfigTestFile(
        str(path),
        _config_path(path, document),
        None if worker is None else str(path.parent / str(worker)),
        lint,
        document.lines.get("lint", document.line),
        [_parse_test(one, number, path) for number, one in enumerate(tests, start=1)],
    )


def _config_path(path: Path, document: LineMapping) -> str:
    if "config" in document:
        return str(path.parent / str(document["config"]))
    stem = path.name.removesuffix(ENDING)
    for ending in (".properties", ".json"):
        if (path.parent / f"{stem}{ending}").is_file():
            return str(path.parent / f"{stem}{ending}")
    raise ConfigError(
        f"{path}:{document.line}: there is no {stem}.properties or {stem}.json next to it; set the file with config"
    )


def _parse_test(node: Any, number: int, path: Path) -> ConfigTest:
    if not isinstance(node, LineMapping):
        raise ConfigError(f"{path}:1: test {number} must be a mapping with name, input, and expect")
    _reject_unknown_members(node, _TEST_MEMBERS, path, "A test")
    place = f"{path}:{node.line}"
    if ("input" in node) == ("raw" in node):
        raise ConfigError(f"{place}: a test needs either input or raw")
    if "expect" not in node:
        raise ConfigError(f"{place}: a test needs expect")
    given = node.get("raw", node.get("input"))
    inputs = given if isinstance(given, list) else [given]
    expect = node["expect"] if isinstance(node["expect"], list) else [node["expect"]]
    if not inputs or len(inputs) != len(expect):
        raise ConfigError(f"{place}: {len(inputs)} inputs and {len(expect)} expectations; each input needs one, in order")
    for one in expect:
        _check_expectation(one, path, node.line)
    if "raw" in node:
        for one in inputs:
            if isinstance(one, LineMapping):
                _reject_unknown_members(one, _RAW_MEMBERS, path, "A raw message")
    return ConfigTest(str(node.get("name", f"test {number}")), node.line, inputs, "raw" in node, expect, _overrides(node, path))


def _check_expectation(node: Any, path: Path, line: int) -> None:
    if not isinstance(node, LineMapping) or not node:
        raise ConfigError(f"{path}:{line}: expect must be a mapping with some of {', '.join(_EXPECT_MEMBERS)}")
    _reject_unknown_members(node, _EXPECT_MEMBERS, path, "An expectation")
    if ("dropped" in node or "error" in node) and len(node) > 1:
        raise ConfigError(f"{path}:{node.line}: dropped and error cannot be combined with other members")
    if "dropped" in node and node["dropped"] is not True:
        raise ConfigError(f"{path}:{node.line}: dropped must be true if present")
    if "error" in node and not (isinstance(node["error"], str) and node["error"]):
        raise ConfigError(f"{path}:{node.line}: error must be a part of the error message")
    for member, kind, what in (("fields", dict, "a mapping of paths to values"), ("absent", list, "a list of paths")):
        if member in node and not isinstance(node[member], kind):
            raise ConfigError(f"{path}:{node.line}: {member} must be {what}, for example value.id")


def _overrides(node: LineMapping, path: Path) -> dict[str, str | None]:
    config = node.get("config") or {}
    if not isinstance(config, dict):
        raise ConfigError(f"{path}:{node.line}: config must be a mapping of changed keys to values")
    return {str(key): _text(value) for key, value in config.items()}


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)


def _reject_unknown_members(node: LineMapping, known: Sequence[str], path: Path, what: str) -> None:
    for member in node:
        if member not in known:
            hint = did_you_mean(str(member), known) or f"Expected one of {', '.join(known)}."
            raise ConfigError(f"{path}:{node.lines[member]}: {what} has no member {member}. {hint}")


def is_record_node(node: Any) -> bool:
    """Returns whether an input is a whole record and not a plain value: it has key or value, and only members of records."""
    return isinstance(node, dict) and bool(node) and MEMBERS.issuperset(node) and ("key" in node or "value" in node)


class _Loader(yaml.SafeLoader):
    """YAML without dates: 2024-01-01 is text, as in JSON. Duplicate names in a mapping are errors."""


def _construct_mapping(loader: _Loader, node: yaml.MappingNode) -> LineMapping:
    mapping = LineMapping(node.start_mark.line + 1)
    loader.flatten_mapping(node)
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, dict | list):
            raise ConfigError(f"line {key_node.start_mark.line + 1}: member names must be text")
        name = key if isinstance(key, str) else str(key_node.value)
        if name in mapping:
            raise ConfigError(f"line {key_node.start_mark.line + 1}: duplicate member {name}")
        mapping.lines[name] = key_node.start_mark.line + 1
        mapping[name] = loader.construct_object(value_node, deep=True)
    return mapping


_Loader.add_constructor("tag:yaml.org,2002:map", _construct_mapping)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _load_yaml(path: Path) -> Any:
    try:
        return yaml.load(path.read_text("utf-8"), _Loader)  # a SafeLoader
    except OSError as e:
        raise ConfigError(f"{path}: cannot read the file: {e.strerror or e}") from e
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: not UTF-8: {e.reason} at byte {e.start}") from e
    except yaml.MarkedYAMLError as e:
        line = e.problem_mark.line + 1 if e.problem_mark is not None else 1
        raise ConfigError(f"{path}:{line}: not YAML: {e.problem or e.context}") from e
    except (yaml.YAMLError, RecursionError) as e:
        raise ConfigError(f"{path}:1: not YAML: {e}") from e
    except ConfigError as e:
        raise ConfigError(f"{path}: {e.message}") from e
