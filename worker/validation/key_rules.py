"""Rules for connector keys that no other table needs, in Kafka's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from connect.config.validators import NonNull
from connect.errors import ConfigError


@dataclass(frozen=True, slots=True)
class UniqueAliases:
    """A list that names nothing twice, and is not null."""

    def __call__(self, name: str, value: Any) -> None:
        NonNull()(name, value)
        if len(set(value)) < len(value):
            raise ConfigError.invalid(name, f"[{', '.join(value)}]", "Duplicate alias provided.")

    def __str__(self) -> str:
        return f"{NonNull()}, unique transformation aliases"
