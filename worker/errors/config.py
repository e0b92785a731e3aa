"""The settings for records that fail: ``errors.*`` (KIP-298, KIP-610)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef
from worker.config.extension_keys import SOURCE_DEAD_LETTER_KEYS
from worker.validation.connector_keys import COMMON_KEYS, SINK_KEYS

_DEAD_LETTERS = "errors.deadletterqueue."

_COMMON = [key for key in COMMON_KEYS if key.name.startswith("errors.")]
_TABLES = {
    "sink": ConfigDef([*_COMMON, *(key for key in SINK_KEYS if key.name.startswith("errors."))]),
    "source": ConfigDef([*_COMMON, *SOURCE_DEAD_LETTER_KEYS]),
}


@dataclass(frozen=True, slots=True)
class DeadLetterTopic:
    """The topic of a dead letter queue."""

    name: str
    replication_factor: int
    """For creating the topic; -1 leaves it to the broker."""
    context_headers: bool
    prefix: str
    """The prefix of the topic's keys."""


@dataclass(frozen=True, slots=True)
class ErrorSettings:
    """The typed values of one connector."""

    tolerant: bool = False
    """``errors.tolerance=all``."""
    retry_timeout_ms: int = 0
    """How long a single operation is retried: 0 means never, a negative number means forever."""
    retry_delay_max_ms: int = 60_000
    log: bool = False
    log_messages: bool = False
    dead_letters: DeadLetterTopic | None = None

    @property
    def reports(self) -> bool:
        """Whether failed records are reported anywhere; a sink task has an errant record reporter then."""
        return self.log or self.dead_letters is not None


def error_settings(config: Mapping[str, str | None], connector_type: str) -> ErrorSettings:
    """Parses the settings of a ``source`` or ``sink``. Raises ConfigError with Kafka's message."""
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
    # Without its headers, the dead letter of a source says nothing about the failure.
    headers = is_source or values[f"{_DEAD_LETTERS}context.headers.enable"]
    return DeadLetterTopic(name, values[f"{prefix}topic.replication.factor"], headers, prefix)
