"""Definitions of the Kafka client settings that a connector may override, as validation results show them.

Names, types, defaults, and documentation are those of Kafka's own clients, 4.3 (Apache License 2.0). They are in
``client_keys.jsonl``, written by ``scripts/ClientKeys.java``. An override with any other name is shown as plain text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from connect.config.definition import NO_DEFAULT, ConfigKey, Importance
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from worker.kafka.settings import ClientKind

_FILE = Path(__file__).with_name("client_keys.jsonl")


def client_keys(client: ClientKind) -> Mapping[str, ConfigKey]:
    """Returns the settings of one kind of client, by name."""
    return _tables()[client]


@lru_cache(maxsize=1)
def _tables() -> dict[ClientKind, dict[str, ConfigKey]]:
    tables: dict[ClientKind, dict[str, ConfigKey]] = {client: {} for client in ClientKind}
    for line in _FILE.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        name, type = entry["name"], ConfigType(entry["type"])
        key = ConfigKey(
            name,
            type,
            NO_DEFAULT if entry["required"] else parse_value(name, entry["default"], type),
            importance=Importance(entry["importance"]),
            doc=entry["doc"],
            group=entry["group"],
        )
        for client in entry["clients"]:
            tables[ClientKind(client)][name] = key
    return tables
