"""Schema contracts: what becomes of data whose columns differ from those that a table had so far. Shared by sources and sinks."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.parsing import split_list
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.errors import ConfigError, ConnectError
from connect.suggestions import did_you_mean

CONTRACT = "schema.contract"
OVERRIDES = "schema.contract.overrides"


class ContractMode(Enum):
    """What becomes of a column that is new, is gone, or has another type."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    DROP_COLUMN = "drop_column"
    DEAD_LETTER_QUEUE = "dead_letter_queue"


_MODES = tuple(mode.value for mode in ContractMode)


class FrozenSchemaError(ConnectError):
    """A table has changed or would change, and its contract is freeze."""


@dataclass(frozen=True, slots=True)
class ContractRules:
    """A mode for all tables, and patterns of tables and columns with modes of their own."""

    default: ContractMode = ContractMode.EVOLVE
    overrides: tuple[tuple[re.Pattern[str], ContractMode], ...] = ()

    def mode_of(self, table: str, column: str) -> ContractMode:
        """The mode of a column of ``table``: that of the column, else of the table, else the default."""
        for name in (f"{table}.{column}", table):
            for pattern, mode in self.overrides:
                if pattern.fullmatch(name):
                    return mode
        return self.default

    def has_mode(self, *modes: ContractMode) -> bool:
        """Whether any column may have one of these modes."""
        return self.default in modes or any(mode in modes for _, mode in self.overrides)

    @property
    def are_used(self) -> bool:
        """Whether any column may have another mode than evolve."""
        return self.default is not ContractMode.EVOLVE or bool(self.overrides)


@dataclass(frozen=True, slots=True)
class ContractOverrides:
    """Accepts a list of patterns with their modes."""

    def __call__(self, name: str, value: Any) -> None:
        _parse_overrides(value)

    def __str__(self) -> str:
        return f"comma-separated list of <regular expression>:<mode>; modes are {', '.join(_MODES)}"


def define_contract_rules(keys: ConfigDef, group: str, doc: str, overrides_doc: str) -> None:
    """Defines ``schema.contract`` and ``schema.contract.overrides``."""
    text, medium, low = ConfigType.STRING, Importance.MEDIUM, Importance.LOW
    modes = one_of(*_MODES)
    keys.define(CONTRACT, text, ContractMode.EVOLVE.value, group=group, importance=medium, validator=modes, doc=doc)
    keys.define(OVERRIDES, text, None, group=group, importance=low, validator=ContractOverrides(), doc=overrides_doc)


def parse_contract_rules(values: Mapping[str, Any]) -> ContractRules:
    """Parses the rules. Raises ConfigError."""
    return ContractRules(ContractMode(values[CONTRACT]), _parse_overrides(values[OVERRIDES]))


def _parse_overrides(text: str | None) -> tuple[tuple[re.Pattern[str], ContractMode], ...]:
    found = []
    for part in split_list(text):
        pattern, colon, word = part.rpartition(":")
        mode = word.strip().lower()
        if not colon or mode not in _MODES:
            hint = did_you_mean(mode, _MODES, "; ") if colon else ""
            raise ConfigError.invalid(OVERRIDES, part, f"expected <regular expression>:<{'|'.join(_MODES)}>{hint}")
        try:
            found.append((re.compile(pattern.strip(), re.IGNORECASE), ContractMode(mode)))
        except re.error as e:
            raise ConfigError.invalid(OVERRIDES, part, f"not a regular expression: {e}") from e
    return tuple(found)
