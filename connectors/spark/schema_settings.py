"""Keys for records whose fields differ from the columns of their table: missing and new fields, renames, contracts."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.schema_contracts import ContractMode, ContractRules, define_contract_rules, parse_contract_rules
from connect.config.types import ConfigType
from connect.config.validators import OneOf, one_of
from connect.errors import ConfigError
from connect.suggestions import did_you_mean

EVOLUTION = "schema.evolution"
ADD, WIDEN, LENIENT, NONE = "add", "widen", "lenient", "none"
EVOLUTIONS = one_of(ADD, WIDEN, LENIENT, NONE, "fail")
MISSING = "missing.columns"
ADDED_DEFAULT = "added.columns.default"
RENAMES = "column.renames"
EVOLUTION_PREFIX, RENAMES_PREFIX = f"{EVOLUTION}.", f"{RENAMES}."
_GROUP = "Table"
_RESERVED = "__"

Renames = Mapping[str, str]
"""By field of the records: the column of the table."""


@dataclass(frozen=True, slots=True)
class SchemaSettings:
    """How records are written whose fields differ from the columns of their table."""

    keeps_missing: bool = False
    """Whether an upsert keeps the value of a column that the record does not have."""
    uses_defaults: bool = False
    """Whether rows of before get the default of a column that is added."""
    renames: Renames = field(default_factory=dict)
    contract: ContractRules = field(default_factory=ContractRules)

    @property
    def tells_missing(self) -> bool:
        """Whether a field that a record lacks must be told from one that is null."""
        return self.keeps_missing or bool(self.renames)

    @property
    def sets_values_aside(self) -> bool:
        """Whether a contract may leave out a value that does not fit, or fail the task because of one."""
        return self.contract.has_mode(ContractMode.FREEZE, ContractMode.DROP_COLUMN)


@dataclass(frozen=True, slots=True)
class OfTable:
    """What a table has of its own."""

    evolution: str | None = None
    renames: Renames = field(default_factory=dict)


class _RenameList:
    """Fields with their columns."""

    def __call__(self, name: str, value: Any) -> None:
        parse_renames(name, value or ())

    def __str__(self) -> str:
        return "comma-separated list of <field>:<column>"


def define_schema_keys(d: ConfigDef) -> None:
    t, medium, low = ConfigType, Importance.MEDIUM, Importance.LOW
    d.define(MISSING, t.STRING, "null", validator=one_of("null", "keep"), importance=medium, group=_GROUP,
             doc="What an upsert writes into a column that the record does not have (its schema lacks the field, or its object "
             "without a schema lacks the member): null, or keep for the table's value.")  # fmt: skip
    d.define(ADDED_DEFAULT, t.STRING, "null", validator=one_of("null", "schema"), importance=low, group=_GROUP,
             doc="What the existing rows of an upsert table have in a column that schema.evolution adds: null, or schema for "
             "the default in the schema of the records that brought the column.")  # fmt: skip
    d.define(RENAMES, t.LIST, "", validator=_RenameList(), importance=medium, group=_GROUP,
             doc="Fields of records (also of keys) that are written into columns of other names: <field>:<column>, "
             "comma-separated. column.renames.<table> adds some for one table.")  # fmt: skip
    define_contract_rules(
        d,
        _GROUP,
        "What happens to a record with a value that would change its table, because the table lacks the column or the value does "
        "not fit it: evolve does what schema.evolution says, freeze fails the task, drop_column leaves the value out and counts "
        "it, and dead_letter_queue treats the record as errant. Values of key columns are never left out: the task fails.",
        "Other contracts for tables and columns: <regular expression>:<mode>, comma-separated. Expressions match a table or "
        "table.column. The first one that matches the column applies, else the first one that matches its table.",
    )


def parse_schema_settings(values: Mapping[str, Any]) -> SchemaSettings:
    """Parses the settings of all tables. Raises ConfigError."""
    renames = parse_renames(RENAMES, values[RENAMES] or ())
    return SchemaSettings(values[MISSING] == "keep", values[ADDED_DEFAULT] == "schema", renames, parse_contract_rules(values))


def parse_renames(key: str, parts: Sequence[str]) -> Renames:
    """Parses ``<field>:<column>`` pairs. Raises ConfigError."""
    found: dict[str, str] = {}
    for part in parts:
        old, colon, new = (text.strip() for text in part.partition(":"))
        if not (old and colon and new) or ":" in new:
            raise ConfigError.invalid(key, part, "Expected <field>:<column>")
        if old == new:
            raise ConfigError.invalid(key, part, "field and column have the same name")
        if found.get(old, new) != new:
            raise ConfigError.invalid(key, part, f"the field {old} is also written into the column {found[old]}")
        if new.startswith(_RESERVED):
            raise ConfigError.invalid(key, part, f"columns that start with {_RESERVED} are those of the sink")
        found[old] = new
    for old, new in found.items():
        if new in found:
            raise ConfigError.invalid(key, f"{old}:{new}", f"{new} is itself written into {found[new]}; name that column")
    return found


def parse_table_keys(props: Mapping[str, str], tables: Collection[str]) -> dict[str, OfTable]:
    """Reads ``schema.evolution.<table>`` and ``column.renames.<table>``. ``tables`` are all tables, or empty if they are not
    known. Raises ConfigError."""
    evolutions = _of_tables(props, EVOLUTION_PREFIX, tables)
    renames = _of_tables(props, RENAMES_PREFIX, tables)
    for table, value in evolutions.items():
        _check_choice(EVOLUTION_PREFIX + table, value, EVOLUTIONS)
    return {
        table: OfTable(
            evolutions.get(table),
            parse_renames(RENAMES_PREFIX + table, [part for part in renames.get(table, "").split(",") if part.strip()]),
        )
        for table in evolutions.keys() | renames.keys()
    }


def _check_choice(key: str, value: str, choices: OneOf) -> None:
    if not choices.allows(value):
        hint = did_you_mean(value, [str(choice) for choice in choices.values], "; ")
        raise ConfigError.invalid(key, value, f"String must be one of: {', '.join(map(str, choices.values))}{hint}")


def _of_tables(props: Mapping[str, str], prefix: str, tables: Collection[str]) -> dict[str, str]:
    found = {key.removeprefix(prefix): value.strip() for key, value in props.items() if key.startswith(prefix)}
    for table, value in found.items():
        if tables and table not in tables:
            hint = did_you_mean(table, tables, "; ")
            raise ConfigError.invalid(prefix + table, value, f"the connector writes no table {table}{hint}")
    return found


def check_renames(renames: Renames, columns: Mapping[str, Sequence[str]], rescue_column: str) -> None:
    """Raises ConfigError for a key whose columns are named like fields that get another name. ``columns``: by key."""
    for key, names in columns.items():
        for name in names:
            if name in renames:
                raise ConfigError.invalid(
                    key, name, f"{RENAMES} writes the field {name} into the column {renames[name]}; did you mean {renames[name]}?"
                )
    for old, new in renames.items():
        if new == rescue_column:
            raise ConfigError.invalid(RENAMES, f"{old}:{new}", "that is the rescue column")
