"""The keys that mask, hash, and truncate columns or show their types in schemas: ``column.mask.*`` and others of Debezium."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from connect.config.definition import ConfigValue
from connect.config.parsing import split_list
from connect.errors import ConfigError


class RuleKind(Enum):
    """The kinds of rules, in the order in which Debezium looks for the rule of a column."""

    TRUNCATE = re.compile(r"column\.truncate\.to\.(\d+)\.chars")
    MASK = re.compile(r"column\.mask\.with\.(\d+)\.chars")
    PROPAGATE = re.compile(r"column\.propagate\.source\.type")
    PROPAGATE_TYPE = re.compile(r"datatype\.propagate\.source\.type")
    HASH = re.compile(r"column\.mask\.hash\.([^.]+)\.with\.salt\.(.+)")
    HASH_V2 = re.compile(r"column\.mask\.hash\.v2\.([^.]+)\.with\.salt\.(.+)")


CASELESS_PREFIXES = ("column.mask.with.", "column.truncate.to.")
"""What keys without a text of the user's begin with: a salt has capital letters."""


@dataclass(frozen=True, slots=True)
class ColumnRule:
    """A rule for the columns that its patterns match, in full and case-insensitively."""

    kind: RuleKind
    patterns: tuple[str, ...]
    length: int = 0
    algorithm: str = ""
    salt: str = ""

    def matches(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name, re.IGNORECASE) for pattern in self.patterns)


_UNSUPPORTED = re.compile(r"column\.(?:mask|truncate)\..*")


def parse_column_rules(config: Mapping[str, str]) -> tuple[ColumnRule, ...]:
    """Parses the rules of a configuration. Raises ConfigError."""
    found: list[ColumnRule] = []
    for kind in RuleKind:
        for name, value in config.items():
            if value and (match := kind.value.fullmatch(name)) is not None:
                found.append(_rule(name, value, kind, match))
    for name, value in config.items():
        if _UNSUPPORTED.fullmatch(name) and not any(kind.value.fullmatch(name) for kind in RuleKind):
            raise ConfigError.invalid(
                name, value, "expected column.mask.with.<n>.chars, column.mask.hash[.v2].<algorithm>.with.salt.<salt>, or "
                "column.truncate.to.<n>.chars"
            )  # fmt: skip
    return tuple(found)


def find_rule_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """Finds invalid keys of rules, one at a time."""
    found: list[ConfigValue] = []
    for name, value in config.items():
        try:
            parse_column_rules({name: value})
        except ConfigError as e:
            found.append(ConfigValue(name, value, errors=[e.message]))
    return found


def _rule(name: str, value: str, kind: RuleKind, match: re.Match[str]) -> ColumnRule:
    patterns = tuple(split_list(value))
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as e:
            raise ConfigError.invalid(name, pattern, f"not a regular expression: {e}") from e
    match kind:
        case RuleKind.TRUNCATE | RuleKind.MASK:
            return ColumnRule(kind, patterns, length=int(match[1]))
        case RuleKind.HASH | RuleKind.HASH_V2:
            algorithm = _python_algorithm(match[1])
            if algorithm is None:
                raise ConfigError.invalid(name, match[1], "unknown hash algorithm; expected for example SHA-256, SHA-512, or MD5")
            return ColumnRule(kind, patterns, algorithm=algorithm, salt=match[2])
    return ColumnRule(kind, patterns)


def _python_algorithm(name: str) -> str | None:
    """The name in Python of one of Java's algorithms."""
    plain = name.lower()
    plain = {"sha": "sha1"}.get(plain, plain)
    if plain.startswith("sha-"):
        plain = "sha" + plain[4:]
    plain = plain.replace("/", "_").replace("sha3-", "sha3_")
    try:
        return plain if hashlib.new(plain).digest_size else None
    except ValueError:
        return None
