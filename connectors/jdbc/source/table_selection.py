"""Selects the tables that a source reads, and names their topics."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, ConnectError
from connect.suggestions import nearest
from connectors.jdbc.config_validators import compile_pattern
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.table_name import TableName

_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class TableFilter:
    """Lists that select tables. Names are exact, bare or qualified; regular expressions match the whole qualified name."""

    whitelist: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def select(self, tables: Sequence[TableName], dialect: Dialect) -> list[TableName]:
        """Returns the tables to read, in order."""
        if self.whitelist:
            return [table for table in tables if is_listed(table, self.whitelist, dialect)]
        if self.blacklist:
            return [table for table in tables if not is_listed(table, self.blacklist, dialect)]
        if self.include or self.exclude:
            wanted = [compile_pattern("table.include.list", text) for text in self.include]
            unwanted = [compile_pattern("table.exclude.list", text) for text in self.exclude]
            return [
                table
                for table in tables
                if (not wanted or any(one.fullmatch(str(table)) for one in wanted))
                and not any(one.fullmatch(str(table)) for one in unwanted)
            ]
        return list(tables)

    def missing(self, tables: Sequence[TableName], dialect: Dialect) -> list[str]:
        """Returns the names in table.whitelist that no table has."""
        return [text for text in self.whitelist if not any(is_listed(table, (text,), dialect) for table in tables)]


def nearest_table(text: str, tables: Sequence[TableName]) -> str:
    """Returns the name that was probably meant, or ``""``: with other case, in another schema, or the most similar."""
    known = list(dict.fromkeys(text for table in tables for text in (table.name, str(table))))
    lower = text.lower()
    same_ignoring_case = [name for name in known if name.lower() == lower]
    bare = lower.rpartition(".")[2].strip('"`[]')
    in_other_schemas = [str(table) for table in tables if table.name.lower() == bare]
    by_lower = {name.lower(): name for name in known}
    return next(iter(same_ignoring_case or in_other_schemas), "") or by_lower.get(nearest(lower, by_lower) or "", "")


def is_listed(table: TableName, names: Sequence[str], dialect: Dialect) -> bool:
    """Returns whether one of the names is the table's: bare, qualified, or quoted as in SQL."""
    if str(table) in names or table.name in names:
        return True
    try:
        return dialect.table_ref(table) in names
    except ConfigError:
        return False  # quoting is off, but the name would need quotes, so it has no form in SQL


def require_distinct_topics(tables: Sequence[TableName], topics: Mapping[TableName, str]) -> None:
    """Raises ConnectError if two tables would share a topic and their rows would mix. Confluent's connector fails too."""
    by_topic: dict[str, list[TableName]] = {}
    for table in tables:
        by_topic.setdefault(topics[table], []).append(table)
    for topic, sharing in by_topic.items():
        if len(sharing) > 1:
            raise ConnectError(
                f"The tables {' and '.join(str(table) for table in sharing)} would have the same topic {topic}, which would "
                "mix their rows. Set topic.name.format=${schema}.${table} for separate topics, or select one of them "
                "(table.whitelist, table.include.list, schema.pattern)"
            )


def format_topic(table: TableName, prefix: str, form: str) -> str:
    """Returns the topic of a table. Missing parts of the table's name are empty."""
    parts = {"table": table.name, "schema": table.schema or "", "catalog": table.catalog or ""}
    return prefix + _PLACEHOLDER.sub(lambda found: parts[found[1]], form)


def find_mapped_columns(
    mapping: Sequence[tuple[re.Pattern[str], tuple[str, ...]]], table: TableName, key: str
) -> tuple[str, ...]:
    """Returns the columns that a mapping has for a table. Raises ConfigError unless exactly one expression matches."""
    matching = [columns for expression, columns in mapping if expression.fullmatch(str(table))]
    if len(matching) != 1:
        found = " and ".join("|".join(columns) for columns in matching)
        which = f"those for {found} match" if matching else "none matches"
        raise ConfigError(f"{key} must have exactly one regular expression that matches {table}, but {which}", key=key)
    return matching[0]
