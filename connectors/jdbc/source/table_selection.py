"""Which tables a source reads, and which task reads which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from connect.errors import ConfigError, ConnectError
from connect.suggestions import nearest
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.source.config_validators import pattern
from connectors.jdbc.table_name import TableName, split_name

T = TypeVar("T")
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True, slots=True)
class Selection:
    """The lists that choose tables; names are exact, bare or qualified, expressions match the whole qualified name."""

    whitelist: tuple[str, ...] = ()
    blacklist: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    def choose(self, tables: Sequence[TableName], dialect: Dialect) -> list[TableName]:
        """Those of the tables that are to be read, in their order."""
        if self.whitelist:
            return [table for table in tables if is_listed(table, self.whitelist, dialect)]
        if self.blacklist:
            return [table for table in tables if not is_listed(table, self.blacklist, dialect)]
        if self.include or self.exclude:
            wanted = [pattern("table.include.list", text) for text in self.include]
            unwanted = [pattern("table.exclude.list", text) for text in self.exclude]
            return [
                table
                for table in tables
                if (not wanted or any(one.fullmatch(str(table)) for one in wanted))
                and not any(one.fullmatch(str(table)) for one in unwanted)
            ]
        return list(tables)

    def missing(self, tables: Sequence[TableName], dialect: Dialect) -> list[str]:
        """The names of table.whitelist that no table has."""
        return [text for text in self.whitelist if not any(is_listed(table, (text,), dialect) for table in tables)]


def nearest_table(text: str, tables: Sequence[TableName]) -> str:
    """The name that was perhaps meant, or ``""``: one that differs in case, then one of another schema, then the most alike."""
    known = list(dict.fromkeys(text for table in tables for text in (table.name, str(table))))
    lower = text.lower()
    of_case = [name for name in known if name.lower() == lower]
    bare = lower.rpartition(".")[2].strip('"`[]')
    elsewhere = [str(table) for table in tables if table.name.lower() == bare]
    by_lower = {name.lower(): name for name in known}
    return next(iter(of_case or elsewhere), "") or by_lower.get(nearest(lower, by_lower) or "", "")


def is_listed(table: TableName, names: Sequence[str], dialect: Dialect) -> bool:
    """Whether one of the names is the table's: bare, qualified, or as SQL has it."""
    if str(table) in names or table.name in names:
        return True
    try:
        return dialect.table_ref(table) in names
    except ConfigError:
        return False  # a name that may not be quoted and has to be cannot be listed in SQL's form


def require_topics_apart(tables: Sequence[TableName], topics: Mapping[TableName, str]) -> None:
    """Raises ConnectError when two tables would share a topic, as the originals do: their rows would mix in it."""
    by_topic: dict[str, list[TableName]] = {}
    for table in tables:
        by_topic.setdefault(topics[table], []).append(table)
    for topic, sharing in by_topic.items():
        if len(sharing) > 1:
            raise ConnectError(
                f"The tables {' and '.join(str(table) for table in sharing)} would share the topic {topic}, so their rows would "
                "mix in it. Give them topics of their own with topic.name.format=${schema}.${table}, or choose one of them "
                "(table.whitelist, table.include.list, schema.pattern)"
            )


def topic_of(table: TableName, prefix: str, form: str) -> str:
    """The topic of a table; parts of the name that it has not got are empty."""
    parts = {"table": table.name, "schema": table.schema or "", "catalog": table.catalog or ""}
    return prefix + _PLACEHOLDER.sub(lambda found: parts[found[1]], form)


def grouped(items: Sequence[T], groups: int) -> list[list[T]]:
    """Groups of neighbours, as even as can be, the larger ones first: Kafka's ``ConnectorUtils.groupPartitions``."""
    if groups <= 0:
        return []
    size, larger = divmod(len(items), groups)
    out: list[list[T]] = []
    at = 0
    for number in range(groups):
        end = at + size + (1 if number < larger else 0)
        out.append(list(items[at:end]))
        at = end
    return out


def names_text(tables: Sequence[TableName]) -> str:
    """Tables as one text for a task's configuration, each part quoted."""
    return ",".join(".".join(_quoted(part) for part in (t.catalog, t.schema, t.name) if part is not None) for t in tables)


def parse_names(text: str) -> list[TableName]:
    """What :func:`names_text` wrote. Raises ConfigError."""
    names: list[TableName] = []
    for one in _split_outside_quotes(text):
        parts = split_name(one)
        if len(parts) > 3:
            raise ConfigError.invalid("tables", one, "expected [catalog.][schema.]table")
        names.append(TableName(*reversed(parts)))
    return names


def _quoted(part: str) -> str:
    return '"' + part.replace('"', '""') + '"'


def _split_outside_quotes(text: str) -> list[str]:
    return [one for one in re.findall(r'(?:"(?:[^"]|"")*"|[^",])+', text) if one.strip()]


def column_for(mapping: Sequence[tuple[re.Pattern[str], tuple[str, ...]]], table: TableName, key: str) -> tuple[str, ...]:
    """The columns that a mapping names for a table. Raises ConfigError unless exactly one of its expressions matches."""
    matching = [columns for expression, columns in mapping if expression.fullmatch(str(table))]
    if len(matching) != 1:
        found = " and ".join("|".join(columns) for columns in matching)
        which = f"those of {found} do" if matching else "none of its expressions does"
        raise ConfigError(f"{key} must have exactly one expression that matches {table}, but {which}", key=key)
    return matching[0]
