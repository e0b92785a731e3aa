"""Reads connector files in YAML: a flat mapping, or ``name``, ``config``, and ``initial_state``, as in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import yaml

from connect.errors import ConfigError

_NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class YamlMember:
    """A key of a mapping. Scalars are the text of the file, nulls are None, and lists of scalars are text with commas."""

    key: str
    line: int
    """Counted from 1."""
    value: str | tuple[YamlMember, ...] | None


def read_yaml(data: bytes, path: str) -> tuple[YamlMember, ...]:
    """Returns the members of the outermost mapping, in order. Raises ConfigError that starts with file and line."""
    try:
        root = yaml.compose(data.decode("utf-8-sig"), yaml.SafeLoader)
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path}: a YAML file must be UTF-8: {e.reason} at byte {e.start}") from e
    except yaml.MarkedYAMLError as e:
        line = "" if e.problem_mark is None else f":{e.problem_mark.line + 1}"
        raise ConfigError(f"{path}{line}: not YAML: {e.problem or e.context}") from e
    except (yaml.YAMLError, RecursionError) as e:
        raise ConfigError(f"{path}: not YAML: {e}") from e
    if not isinstance(root, yaml.MappingNode):
        raise ConfigError(f"{path}:1: expected keys and values of one connector")
    return tuple(_members(root, path, nested=True))


def _members(node: yaml.MappingNode, path: str, *, nested: bool) -> Iterator[YamlMember]:
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(f"{path}:{line}: a key must be text")
        name = str(key.value)
        if isinstance(value, yaml.ScalarNode):
            yield YamlMember(name, line, None if value.tag == _NULL else str(value.value))
        elif isinstance(value, yaml.SequenceNode) and all(isinstance(one, yaml.ScalarNode) for one in value.value):
            yield YamlMember(name, line, ",".join(str(one.value) for one in value.value))
        elif isinstance(value, yaml.MappingNode) and nested and name == "config":
            yield YamlMember(name, line, tuple(_members(value, path, nested=False)))
        else:
            kind = "a mapping" if isinstance(value, yaml.MappingNode) else "a list of more than texts"
            raise ConfigError(
                f"{path}:{line}: Value of {name} is {kind}, expected text, a number, a boolean, or a list", key=name
            )
