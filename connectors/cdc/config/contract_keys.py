"""The keys of schema contracts: what becomes of a table whose columns change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.parsing import split_list
from connect.config.schema_contracts import ContractRules, define_contract_rules, parse_contract_rules


@dataclass(frozen=True, slots=True)
class ContractSettings:
    """Schema contracts. ``accepted`` names versions of tables as messages do."""

    rules: ContractRules
    accepted: frozenset[str] = frozenset()


def define_contract_keys(keys: ConfigDef, word: str) -> None:
    """``word`` is what contains tables."""
    group = "Schema contracts"
    define_contract_rules(
        keys,
        group,
        "What happens if a captured table has other columns than when it was first captured: evolve gives its events a new "
        "schema, freeze fails the task, drop_column leaves columns out that are new or have another type, and dead_letter_queue "
        "reports the rows of the new version as errors.* say. Key columns are never left out: the task fails.",
        "Other contracts for tables and columns: <regular expression>:<mode>, comma-separated. Expressions match "
        f"{word}.table or {word}.table.column. The first one that matches the column applies, else the first one that matches "
        "its table.",
    )
    keys.define(
        "schema.contract.accepted",
        ConfigType.STRING,
        None,
        group=group,
        importance=Importance.LOW,
        doc="Versions of tables that become part of the contract, comma-separated, as the message of the error names them: "
        f"<{word}>.<table>@<version>.",
    )


def parse_contracts(values: Mapping[str, Any]) -> ContractSettings:
    """Parses the settings. Raises ConfigError."""
    return ContractSettings(parse_contract_rules(values), frozenset(split_list(values["schema.contract.accepted"])))
