"""The keys of schema contracts: what becomes of a table whose columns change."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import one_of
from connect.errors import ConfigError
from connectors.postgres.config_validators import split_list

_OVERRIDES = "schema.contract.overrides"


class ContractMode(Enum):
    """What becomes of a column that is new, is gone, or has another type."""

    EVOLVE = "evolve"
    FREEZE = "freeze"
    DROP_COLUMN = "drop_column"
    DEAD_LETTER_QUEUE = "dead_letter_queue"


_MODES = tuple(mode.value for mode in ContractMode)


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """Schema contracts. ``overrides`` are patterns of tables and columns with their modes; ``accepted`` names versions of tables
    as messages do."""

    default: ContractMode = ContractMode.EVOLVE
    overrides: tuple[tuple[re.Pattern[str], ContractMode], ...] = ()
    accepted: frozenset[str] = frozenset()

    def mode_of(self, table: str, column: str) -> ContractMode:
        """The mode of a column of ``table`` (schema.table): that of the column, else of the table, else the default."""
        for name in (f"{table}.{column}", table):
            for pattern, mode in self.overrides:
                if pattern.fullmatch(name):
                    return mode
        return self.default

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


def define_contract_keys(keys: ConfigDef) -> None:
    group = "Schema contracts"
    keys.define(
        "schema.contract",
        ConfigType.STRING,
        ContractMode.EVOLVE.value,
        group=group,
        importance=Importance.MEDIUM,
        validator=one_of(*_MODES),
        doc="What happens if a captured table has other columns than when it was first captured: evolve gives its events a new "
        "schema, freeze fails the task, drop_column leaves columns out that are new or have another type, and dead_letter_queue "
        "reports the rows of the new version as errors.* say. Key columns are never left out: the task fails.",
    )
    keys.define(
        _OVERRIDES,
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        validator=ContractOverrides(),
        doc="Other contracts for tables and columns: <regular expression>:<mode>, comma-separated. Expressions match "
        "schema.table or schema.table.column. The first one that matches the column applies, else the first one that matches its "
        "table.",
    )
    keys.define(
        "schema.contract.accepted",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        doc="Versions of tables that become part of the contract, comma-separated, as the message of the error names them: "
        "<schema>.<table>@<version>.",
    )


def parse_contracts(values: Mapping[str, Any]) -> ContractSettings:
    """Parses the settings. Raises ConfigError."""
    return ContractSettings(
        ContractMode(values["schema.contract"]),
        _parse_overrides(values[_OVERRIDES]),
        frozenset(split_list(values["schema.contract.accepted"])),
    )


def _parse_overrides(text: str | None) -> tuple[tuple[re.Pattern[str], ContractMode], ...]:
    found = []
    for part in split_list(text):
        pattern, colon, mode = part.rpartition(":")
        if not colon or mode.strip().lower() not in _MODES:
            raise ConfigError.invalid(_OVERRIDES, part, f"expected <regular expression>:<{'|'.join(_MODES)}>")
        try:
            found.append((re.compile(pattern.strip(), re.IGNORECASE), ContractMode(mode.strip().lower())))
        except re.error as e:
            raise ConfigError.invalid(_OVERRIDES, part, f"not a regular expression: {e}") from e
    return tuple(found)
