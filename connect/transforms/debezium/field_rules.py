"""Rules of ``include.list`` and ``exclude.list``, which select fields by table and topic."""

from __future__ import annotations

from dataclasses import dataclass, field

from connect.change_events.envelope import AFTER, BEFORE, SOURCE
from connect.errors import ConfigError

_TOPIC = "topic"
_FORMS = "source:<table>, source:<table>:<field>, topic:<topic>, topic:<topic>:<field>, or <name>:<field>"


@dataclass(frozen=True, slots=True)
class FieldSelection:
    """The selected fields of one topic and table by block: all (``includes`` is None), those named, or those not named."""

    includes: bool | None
    before: frozenset[str] = frozenset()
    after: frozenset[str] = frozenset()
    source: frozenset[str] = frozenset()

    def selects(self, name: str, named: frozenset[str]) -> bool:
        """Whether a field is selected in a block with these named fields."""
        return self.includes is None or (name in named) is self.includes


@dataclass(frozen=True, slots=True)
class FieldRules:
    """Fields by topic, by table, and by a name that may be either. A name without fields selects all its fields."""

    includes: bool
    by_topic: dict[str, set[str]] = field(default_factory=dict)
    by_table: dict[str, set[str]] = field(default_factory=dict)
    by_name: dict[str, set[str]] = field(default_factory=dict)

    def select(self, topic: str, table: str | None) -> FieldSelection | None:
        """The fields to convert in events of a topic and table; None if there are none."""
        found = self._fields(topic, table)
        if found is None:
            return None if self.includes else FieldSelection(None)
        if not found:
            return FieldSelection(None) if self.includes else None
        blocks: dict[str, set[str]] = {BEFORE: set(), AFTER: set(), SOURCE: set()}
        for name in found:
            block, dot, rest = name.partition(".")
            if dot and block in blocks:
                blocks[block].add(rest)
            else:
                blocks[BEFORE].add(name)
                blocks[AFTER].add(name)
        return FieldSelection(self.includes, *(frozenset(blocks[block]) for block in (BEFORE, AFTER, SOURCE)))

    def _fields(self, topic: str, table: str | None) -> set[str] | None:
        for rules, name in ((self.by_topic, topic), (self.by_table, table), (self.by_name, topic), (self.by_name, table)):
            if name is not None and name in rules:
                return rules[name]
        return None


def parse_rules(key: str, rules: list[str], includes: bool) -> FieldRules:
    """Parses rules. A prefix applies to the following rules until the next prefix; the first rule must be more than a name.
    Raises ConfigError."""
    result = FieldRules(includes)
    prefix: str | None = None
    for index, rule in enumerate(rules):
        parts = [part.strip().strip('"') for part in rule.split(":")]
        if not 1 <= len(parts) <= 3 or not all(parts):
            raise ConfigError.invalid(key, rule, f"expected {_FORMS}")
        if len(parts) > 1 and parts[0].lower() in (SOURCE, _TOPIC):
            prefix = parts.pop(0).lower()
        elif len(parts) == 3:
            raise ConfigError.invalid(key, rule, f"{parts[0]} is neither source nor topic; expected {_FORMS}")
        elif len(parts) == 1 and index == 0:
            raise ConfigError.invalid(key, rule, f"a name alone is not a rule; expected {_FORMS}")
        where = result.by_topic if prefix == _TOPIC else result.by_table if prefix == SOURCE else result.by_name
        where.setdefault(parts[0], set()).update(parts[1:])
    return result
