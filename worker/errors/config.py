"""What a connector wants done about records that fail: ``errors.*`` (KIP-298, KIP-610)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef
from worker.validation.common_keys import COMMON_KEYS
from worker.validation.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.validation.sink_keys import SINK_KEYS

_DEAD_LETTERS = "errors.deadletterqueue."

_COMMON = [key for key in COMMON_KEYS if key.name.startswith("errors.")]
_TABLES = {
    "sink": ConfigDef([*_COMMON, *(key for key in SINK_KEYS if key.name.startswith("errors."))]),
    "source": ConfigDef([*_COMMON, *SOURCE_DEAD_LETTER_KEYS]),
}


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """Where failed records go."""

    name: str
    replication_factor: int
    """For a topic that is made; -1 leaves it to the broker."""
    context_headers: bool
    prefix: str
    """Of the keys that name and make it."""


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The keys of one connector, typed."""

    tolerant: bool = False
    """``errors.tolerance=all``."""
    retry_timeout_ms: int = 0
    """How long a single operation is tried again: 0 not at all, below 0 for ever."""
    retry_delay_max_ms: int = 60_000
    log: bool = False
    log_messages: bool = False
    dead_letters: DeadLetterTopic | None = None

    @property
    def reports(self) -> bool:
        """Whether failed records are told of anywhere; a sink task has an errant record reporter then."""
        return self.log or self.dead_letters is not None


def error_settings(config: Mapping[str, str | None], connector_type: str) -> ErrorSettings:
    """The settings of a ``source`` or ``sink``. Raises ConfigError in Kafka's words."""
    values = _TABLES[connector_type].parse({key: value for key, value in config.items() if value is not None})
    return ErrorSettings(
        values["errors.tolerance"] == "all",
        values["errors.retry.timeout"],
        values["errors.retry.delay.max.ms"],
        values["errors.log.enable"],
        values["errors.log.include.messages"],
        _dead_letters(values, is_source=connector_type == "source"),
    )


def _dead_letters(values: Mapping[str, Any], *, is_source: bool) -> DeadLetterTopic | None:
    prefix = f"{_DEAD_LETTERS}source." if is_source else _DEAD_LETTERS
    name = values[f"{prefix}topic.name"]
    if not name:
        return None
    # What a source writes is of no use without its headers.
    headers = is_source or values[f"{_DEAD_LETTERS}context.headers.enable"]
    return DeadLetterTopic(name, values[f"{prefix}topic.replication.factor"], headers, prefix)
