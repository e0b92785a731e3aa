"""The keys of signals, incremental snapshots, backfill, and notifications, and their typed values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.config.parsing import split_list
from connect.config.validators import at_least, one_of
from connect.errors import ConfigError

CONSUMER_PREFIX = "signal.consumer."
"""What keys with settings of the signal topic's consumer begin with."""
SIGNAL_CHANNELS = ("source", "kafka", "file")
NOTIFICATION_CHANNELS = ("log", "sink")
_SINK_TOPIC = "notification.sink.topic.name"

BACKFILL_NONE, BACKFILL_CREATED, BACKFILL_ALL = "none", "created", "all"


@dataclass(frozen=True, slots=True)
class SignalTopicSettings:
    """The topic of the channel kafka. ``consumer`` are the settings of its consumer."""

    name: str
    consumer: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class SignalSettings:
    """Where signals come from. ``table`` is (schema, name) of the signal table, None without one."""

    channels: frozenset[str]
    table: tuple[str, str] | None
    file: str
    topic: SignalTopicSettings
    poll_interval_s: float


@dataclass(frozen=True, slots=True)
class IncrementalSettings:
    """How incremental snapshots read tables."""

    chunk_size: int
    deletes_watermarks: bool
    read_only: bool
    backfill: str


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Where notifications of snapshots go."""

    channels: frozenset[str]
    topic: str | None


@dataclass(frozen=True, slots=True)
class Channels:
    """Accepts a comma-separated list of known channels."""

    known: tuple[str, ...]
    in_place_of_jmx: str
    """What does the same without a Java process."""

    def __call__(self, name: str, value: Any) -> None:
        for part in split_list(value):
            if part not in self.known:
                instead = f"; in place of JMX, {self.in_place_of_jmx}" if part == "jmx" else ""
                raise ConfigError.invalid(name, part, f"this connector supports {', '.join(self.known)}{instead}")

    def __str__(self) -> str:
        return f"comma-separated list of {', '.join(self.known)}"


def parse_table_name(text: str) -> tuple[str, str] | None:
    """Parses the name of a table in a schema or database, each with or without double quotes; None for anything else."""
    parts = re.fullmatch(r'\s*("(?:[^"]|"")+"|[^".]+)\.("(?:[^"]|"")+"|[^".]+)\s*', text)
    if parts is None:
        return None
    schema, name = (part[1:-1].replace('""', '"') if part.startswith('"') else part for part in parts.groups())
    return schema, name


@dataclass(frozen=True, slots=True)
class TableNameText:
    """Accepts the name of a table with that of what contains it, ``word``."""

    word: str

    def __call__(self, name: str, value: Any) -> None:
        if value and parse_table_name(value) is None:
            raise ConfigError.invalid(name, value, f"expected {self}")

    def __str__(self) -> str:
        return f"{self.word}.table"


def define_signal_keys(keys: ConfigDef, word: str, *, example: str, backfill_doc: str) -> None:
    """``word`` is what contains tables, ``example`` the name of a table. ``backfill_doc`` says when tables are captured later."""
    group = "Signals"
    low = Importance.LOW
    keys.define(
        "signal.data.collection",
        ConfigType.STRING,
        None,
        group=group,
        validator=TableNameText(word),
        doc=f"Signal table ({word}.table) with the columns id, type, and data: inserted rows are signals to the connector. "
        "Incremental snapshots write their watermarks to it, unless read.only=true. Its changes are captured too.",
    )
    keys.define(
        "signal.enabled.channels",
        ConfigType.STRING,
        "source",
        group=group,
        validator=Channels(SIGNAL_CHANNELS, "send signals to POST /sluice/connectors/<name>/signals"),
        doc="Where signals come from: source (the signal table), kafka (signal.kafka.topic), file (signal.file). "
        "Comma-separated.",
    )
    keys.define(
        "signal.kafka.topic",
        ConfigType.STRING,
        None,
        group=group,
        doc="Topic of the channel kafka; by default <topic.prefix>-signal. Its first partition is read. The key of a signal is "
        f'topic.prefix, the value such as {{"type": "execute-snapshot", "data": {{"data-collections": ["{example}"]}}}}.',
    )
    keys.define(
        "signal.kafka.bootstrap.servers",
        ConfigType.STRING,
        None,
        group=group,
        importance=low,
        doc="Brokers of the channel kafka; by default those of the worker, with its consumer settings. With this key, only "
        "signal.consumer.* apply.",
    )
    keys.define(
        "signal.kafka.groupId",
        ConfigType.STRING,
        "kafka-signal",
        group=group,
        importance=low,
        doc="Consumer group in which the channel kafka stores which signals are done; it continues there if the connector's own "
        "offset says nothing.",
    )
    keys.define(
        "signal.kafka.poll.timeout.ms",
        ConfigType.INT,
        100,
        group=group,
        importance=low,
        validator=at_least(0),
        doc="Accepted for compatibility: signals are read without waiting. signal.consumer.* are further consumer settings.",
    )
    keys.define(
        "signal.file",
        ConfigType.STRING,
        "file-signals.txt",
        group=group,
        importance=low,
        doc='File of the channel file: one signal per line, such as {"id": "1", "type": "execute-snapshot", "data": '
        f'{{"data-collections": ["{example}"]}}}}. Lines that were read are removed from the file.',
    )
    keys.define(
        "signal.poll.interval.ms",
        ConfigType.LONG,
        5_000,
        group=group,
        importance=low,
        validator=at_least(1),
        doc="Interval at which the channels other than source are read.",
    )
    keys.define(
        "incremental.snapshot.chunk.size",
        ConfigType.INT,
        1024,
        group=group,
        validator=at_least(1),
        doc="Maximum number of rows that an incremental snapshot reads at a time, up to about 8 MB.",
    )
    keys.define(
        "incremental.snapshot.watermarking.strategy",
        ConfigType.STRING,
        "insert_insert",
        group=group,
        importance=low,
        validator=one_of("insert_insert", "insert_delete"),
        doc="How incremental snapshots mark a chunk in the signal table: insert_insert inserts a row before and a row after the "
        "chunk, insert_delete deletes the first row after the chunk.",
    )
    keys.define(
        "incremental.snapshot.allow.schema.changes",
        ConfigType.BOOLEAN,
        False,
        group=group,
        importance=low,
        doc="Accepted for compatibility: each chunk is read with the columns at that time, so tables may be altered during "
        "an incremental snapshot. A table whose key changes is read again from its start.",
    )
    keys.define(
        "read.only",
        ConfigType.BOOLEAN,
        False,
        group=group,
        importance=low,
        doc="Whether incremental snapshots write nothing to the database, not even watermarks to the signal table.",
    )
    keys.define(
        "backfill.new.tables",
        ConfigType.STRING,
        BACKFILL_CREATED,
        group=group,
        validator=one_of(BACKFILL_NONE, BACKFILL_CREATED, BACKFILL_ALL),
        doc=backfill_doc,
    )
    keys.define(
        "notification.enabled.channels",
        ConfigType.STRING,
        None,
        group="Notifications",
        importance=low,
        validator=Channels(NOTIFICATION_CHANNELS, "read GET /sluice/connectors/<name>/progress"),
        doc="Where notifications about the progress of snapshots go: log, sink (notification.sink.topic.name). Comma-separated.",
    )
    keys.define(
        _SINK_TOPIC,
        ConfigType.STRING,
        None,
        group="Notifications",
        importance=low,
        doc="Topic of the notification channel sink.",
    )


def parse_signals(values: Mapping[str, Any], config: Mapping[str, str]) -> SignalSettings:
    channels = frozenset(split_list(values["signal.enabled.channels"]))
    table = values["signal.data.collection"]
    return SignalSettings(
        channels=channels,
        table=parse_table_name(table) if table else None,
        file=values["signal.file"],
        topic=_parse_topic(values, config),
        poll_interval_s=values["signal.poll.interval.ms"] / 1000,
    )


def _parse_topic(values: Mapping[str, Any], config: Mapping[str, str]) -> SignalTopicSettings:
    consumer = {"group.id": values["signal.kafka.groupId"]}
    if bootstrap := values["signal.kafka.bootstrap.servers"]:
        consumer["bootstrap.servers"] = bootstrap
    consumer |= {key.removeprefix(CONSUMER_PREFIX): value for key, value in config.items() if key.startswith(CONSUMER_PREFIX)}
    return SignalTopicSettings(values["signal.kafka.topic"] or f"{values['topic.prefix']}-signal", consumer)


def parse_incremental(values: Mapping[str, Any]) -> IncrementalSettings:
    return IncrementalSettings(
        chunk_size=values["incremental.snapshot.chunk.size"],
        deletes_watermarks=values["incremental.snapshot.watermarking.strategy"] == "insert_delete",
        read_only=values["read.only"],
        backfill=values["backfill.new.tables"],
    )


def parse_notifications(values: Mapping[str, Any]) -> NotificationSettings:
    """Parses the keys. Raises ConfigError if the channel sink has no topic."""
    channels, topic = frozenset(split_list(values.get("notification.enabled.channels"))), values.get(_SINK_TOPIC)
    if "sink" in channels and not topic:
        raise ConfigError(
            f'Missing required configuration "{_SINK_TOPIC}": the notification channel sink needs a topic', key=_SINK_TOPIC
        )
    return NotificationSettings(channels, topic)


def find_notification_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """Finds errors of keys that depend on one another."""
    try:
        parse_notifications(config)
    except ConfigError as e:
        return [ConfigValue(_SINK_TOPIC, None, errors=[e.message])]
    return []
