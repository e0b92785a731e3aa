"""The keys of the schema history: where the structure of tables is stored, and what of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.config.validators import at_least
from connect.errors import ConfigError
from connect.paths import AllowedPath
from connectors.cdc.config.validators import SupportedValues

PREFIX: Final = "schema.history.internal."
CLIENT_PREFIXES: Final = (f"{PREFIX}producer.", f"{PREFIX}consumer.")
"""What keys with settings of the history's Kafka clients begin with."""
KAFKA, FILE, MEMORY = "kafka", "file", "memory"
_CLASSES: Final = {
    "io.debezium.storage.kafka.history.KafkaSchemaHistory": KAFKA,
    "io.debezium.storage.file.history.FileSchemaHistory": FILE,
    "io.debezium.relational.history.MemorySchemaHistory": MEMORY,
    # Where these classes were before.
    "io.debezium.relational.history.KafkaSchemaHistory": KAFKA,
    "io.debezium.relational.history.FileSchemaHistory": FILE,
    "io.debezium.relational.history.KafkaDatabaseHistory": KAFKA,
    "io.debezium.relational.history.FileDatabaseHistory": FILE,
    "io.debezium.relational.history.MemoryDatabaseHistory": MEMORY,
}
_BY_LOWER_CASE: Final = {name.lower(): kind for name, kind in _CLASSES.items()}
_DEFAULT: Final = next(iter(_CLASSES))


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Where the schema history is stored. ``kind`` is kafka, file, or memory; the other two ignore what they do not need.

    ``producer`` and ``consumer`` are settings of the Kafka clients; without ``bootstrap_servers``, those of the worker apply.
    """

    kind: str
    topic: str
    bootstrap_servers: str | None
    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    query_timeout_s: float
    create_timeout_s: float
    recovery_poll_s: float
    recovery_attempts: int
    file: str | None
    skips_unparseable: bool
    only_captured_tables: bool
    only_captured_databases: bool


def define_history_keys(keys: ConfigDef) -> None:
    group = "Schema history"
    low = Importance.LOW
    keys.define(
        PREFIX[:-1],
        ConfigType.STRING,
        _DEFAULT,
        group=group,
        importance=low,
        validator=SupportedValues(tuple(_BY_LOWER_CASE), "supported are histories in Kafka, in a file, and in memory"),
        doc="Where the structure of tables is stored: a topic (KafkaSchemaHistory), a file (FileSchemaHistory), or only in "
        "memory (MemorySchemaHistory), which needs snapshot.mode=always or a new snapshot after each restart.",
        aliases=["database.history"],
    )
    for name, doc in (
        ("kafka.topic", "Topic of the history: one partition, kept forever. Created if it does not exist."),
        ("kafka.bootstrap.servers", "Brokers of the history. Default: those of the worker, with its client settings."),
    ):
        keys.define(
            PREFIX + name,
            ConfigType.STRING,
            None,
            group=group,
            importance=Importance.HIGH,
            doc=doc,
            aliases=[f"database.history.{name}"],
        )
    for name, default, least, doc in (
        ("kafka.query.timeout.ms", 3_000, 1, "Timeout of requests to the brokers."),
        ("kafka.create.timeout.ms", 30_000, 1, "Timeout of creating the topic."),
        ("kafka.recovery.poll.interval.ms", 100, 1, "Wait for records while the history is read."),
        ("kafka.recovery.attempts", 100, 0, "Number of waits without a record after which reading the history fails."),
    ):
        keys.define(
            PREFIX + name, ConfigType.INT, default, group=group, importance=low, validator=at_least(least), doc=doc,
            aliases=[f"database.history.{name}"],
        )  # fmt: skip
    keys.define(
        f"{PREFIX}file.filename",
        ConfigType.STRING,
        None,
        group=group,
        importance=low,
        validator=AllowedPath(),
        doc="File of the history, one record per line. Required for a history in a file.",
        aliases=["database.history.file.filename"],
    )
    for name, doc in (
        ("skip.unparseable.ddl", "Skip statements that cannot be parsed, with a warning, instead of failing the task."),
        ("store.only.captured.tables.ddl", "Store only statements about captured tables, instead of all tables."),
        ("store.only.captured.databases.ddl", "Store only statements about captured databases, instead of all databases."),
    ):
        keys.define(
            PREFIX + name, ConfigType.BOOLEAN, False, group=group, importance=low, doc=doc, aliases=[f"database.history.{name}"]
        )


def parse_history(values: Mapping[str, Any], config: Mapping[str, str]) -> HistorySettings:
    """Parses the keys. Raises ConfigError for a missing topic or file."""
    kind = _BY_LOWER_CASE[values[PREFIX[:-1]].lower()]
    topic, file = values[f"{PREFIX}kafka.topic"], values[f"{PREFIX}file.filename"]
    for name, needed, value in ((f"{PREFIX}kafka.topic", KAFKA, topic), (f"{PREFIX}file.filename", FILE, file)):
        if kind == needed and not value:
            place = "a file" if kind == FILE else "Kafka"
            raise ConfigError(f'Missing required configuration "{name}": the schema history in {place} needs it', key=name)
    producer, consumer = (
        {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)} for prefix in CLIENT_PREFIXES
    )
    return HistorySettings(
        kind=kind,
        topic=topic or "",
        bootstrap_servers=values[f"{PREFIX}kafka.bootstrap.servers"],
        producer=producer,
        consumer=consumer,
        query_timeout_s=values[f"{PREFIX}kafka.query.timeout.ms"] / 1000,
        create_timeout_s=values[f"{PREFIX}kafka.create.timeout.ms"] / 1000,
        recovery_poll_s=values[f"{PREFIX}kafka.recovery.poll.interval.ms"] / 1000,
        recovery_attempts=values[f"{PREFIX}kafka.recovery.attempts"],
        file=file,
        skips_unparseable=values[f"{PREFIX}skip.unparseable.ddl"],
        only_captured_tables=values[f"{PREFIX}store.only.captured.tables.ddl"],
        only_captured_databases=values[f"{PREFIX}store.only.captured.databases.ddl"],
    )


def find_history_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """Finds errors of keys that depend on one another."""
    keys = ConfigDef()
    define_history_keys(keys)
    try:
        parse_history(
            keys.parse({name: value for name, value in config.items() if name.startswith(("schema.", "database."))}), {}
        )
    except ConfigError as e:
        if e.key in (f"{PREFIX}kafka.topic", f"{PREFIX}file.filename"):
            return [ConfigValue(e.key, None, errors=[e.message])]
    return []
