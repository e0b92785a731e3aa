"""Names of tables for topics."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from connect.errors import ConfigError, ConnectError

_INVALID_CHARACTERS = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class TableNaming:
    """``table.name.format``, ``table.name.normalize`` and ``topics.to.tables.mapping``."""

    format: str = "${topic}"
    normalizes: bool = False
    by_topic: Mapping[str, str] = field(default_factory=dict)

    def name_for(self, topic: str) -> str:
        """Returns the name of the table, qualified or not. Raises ConnectError, with Aiven's message, if there is none."""
        name = self.format.replace("${topic}", topic)
        if self.normalizes:
            name = _INVALID_CHARACTERS.sub("_", name)
        if self.by_topic:
            # Like Aiven's connector: if there is a mapping, topics outside of it have no table.
            name = self.by_topic.get(topic, "")
        if not name:
            listed = ",".join(f"{one}->{table}" for one, table in self.by_topic.items())
            raise ConnectError(
                f"Destination table for the topic: '{topic}' couldn't be found in the topics to tables mapping: '{listed}' and "
                f"couldn't be generated for the format string '{self.format}'; add {topic}:<table> to topics.to.tables.mapping"
            )
        return name


def parse_topic_mapping(key: str, entries: list[str] | None) -> dict[str, str]:
    """Parses ``topic:table`` entries. Raises ConfigError."""
    found: dict[str, str] = {}
    for entry in entries or ():
        topic, *rest = entry.split(":")
        if not topic or not rest or not rest[0]:
            raise ConfigError.invalid(
                key, f"[{', '.join(entries or ())}]", "Invalid topics to tables mapping: expected topic:table,topic:table"
            )
        if topic in found:
            raise ConfigError.invalid(key, entry, f"duplicate topic {topic}")
        found[topic] = rest[0]
    return found
