"""Keys that all sources of change events have, with the word of the database for what contains tables: schema or database."""

from __future__ import annotations

import re
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.parsing import split_list
from connect.config.validators import at_least, one_of
from connect.errors import ConfigError
from connectors.cdc.config.validators import TOPIC_PREFIX, PatternText, RegexList

_S, _N, _L, _B = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def define_topic_prefix(keys: ConfigDef) -> None:
    keys.define(
        "topic.prefix",
        _S,
        importance=_HIGH,
        group="Connection",
        validator=PatternText(TOPIC_PREFIX, "only letters, digits, '.', '_', and '-'"),
        doc="Name of this database in Kafka: prefix of all topics, name of the source partition, and part of schema names. "
        "Do not change it on an existing connector: the stored offset depends on it.",
        aliases=["database.server.name"],
    )


def define_query_timeout(keys: ConfigDef) -> None:
    keys.define(
        "database.query.timeout.ms",
        _N,
        600_000,
        group="Connection",
        importance=_LOW,
        validator=at_least(0),
        doc="Timeout of a catalog query, after which it is tried on a new connection; 0 for no limit. Does not apply to reading "
        "tables.",
    )
    keys.define(
        "connection.validation.timeout.ms",
        _L,
        60_000,
        group="Connection",
        importance=_LOW,
        validator=at_least(100),
        doc="Connect timeout of configuration validation; at most 10 seconds.",
    )


def define_capture_keys(keys: ConfigDef, word: str) -> None:
    group = "Capture"
    for what, form in ((word, word), ("table", f"{word}.table"), ("column", f"{word}.table.column")):
        for side in ("include", "exclude"):
            keys.define(
                f"{what}.{side}.list",
                _S,
                None,
                group=group,
                importance=_HIGH if what == "table" else _MEDIUM,
                validator=RegexList(),
                doc=f"Comma-separated regular expressions; each must match a whole name ({form}), case-insensitively. Set "
                "only one of include and exclude. Key columns are always captured.",
            )
    keys.define(
        "message.key.columns",
        _S,
        None,
        group=group,
        doc=f"Key columns that replace the primary key: <{word}.table regex>:<column>,<column>;<{word}.table regex>:<column>",
    )


def define_snapshot_table_keys(keys: ConfigDef, word: str) -> None:
    """What a snapshot reads, when, and in which order."""
    group = "Snapshot"
    keys.define(
        "snapshot.include.collection.list",
        _S,
        None,
        group=group,
        validator=RegexList(),
        doc=f"Captured tables ({word}.table regular expressions) to read in the snapshot. Default: all.",
    )
    keys.define(
        "snapshot.select.statement.overrides",
        _S,
        None,
        group=group,
        importance=_LOW,
        doc=f"Tables ({word}.table) whose snapshot uses the SELECT in snapshot.select.statement.overrides.<{word}.table>",
    )
    keys.define("snapshot.delay.ms", _L, 0, group=group, importance=_LOW, validator=at_least(0), doc="Delay before the snapshot.")
    keys.define(
        "streaming.delay.ms",
        _L,
        0,
        group=group,
        importance=_LOW,
        validator=at_least(0),
        doc="Delay between snapshot and streaming.",
    )
    keys.define(
        "snapshot.tables.order.by.row.count",
        _S,
        "disabled",
        group=group,
        importance=_LOW,
        validator=one_of("disabled", "ascending", "descending"),
        doc="Order of tables in the snapshot, by estimated number of rows.",
    )


def define_snapshot_thread_keys(keys: ConfigDef) -> None:
    """How many connections read a snapshot, and whether it resumes."""
    group = "Snapshot"
    keys.define(
        "snapshot.max.threads",
        _N,
        1,
        group=group,
        validator=at_least(1),
        doc="Connections that read the snapshot in parallel, all as of the same point in time.",
    )
    keys.define(
        "snapshot.max.threads.multiplier",
        _N,
        1,
        group=group,
        importance=_LOW,
        validator=at_least(1),
        doc="With several snapshot.max.threads, large tables are read in at least snapshot.max.threads times this number of key "
        "ranges.",
    )
    keys.define(
        "legacy.snapshot.max.threads",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc="Read each table on one connection, also with several snapshot.max.threads.",
    )
    keys.define(
        "snapshot.resume.enabled",
        _B,
        True,
        group=group,
        importance=_LOW,
        doc="Store which rows of an incomplete snapshot are completed, and read only the others after a restart. Tables are read "
        "in the order of their keys then. false reads them in the order in which they are stored, and starts over.",
    )


def define_event_keys(keys: ConfigDef, word: str, *, unchanged_needs: str = "") -> None:
    """Events, heartbeats, and batches. ``unchanged_needs`` says what skip.messages.without.change needs."""
    group = "Events"
    keys.define(
        "tombstones.on.delete",
        _B,
        True,
        group=group,
        doc="Whether a tombstone follows each delete, so that log compaction removes the key.",
    )
    keys.define(
        "skipped.operations",
        _S,
        "t",
        group=group,
        doc="Operations to skip: c (insert), u (update), d (delete), t (truncate), or none.",
        validator=_skipped_operations,
    )
    keys.define(
        "skip.messages.without.change",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc=f"Skip updates that change no captured column{unchanged_needs}.",
    )
    keys.define(
        "extended.headers.enabled",
        _B,
        True,
        group=group,
        importance=_LOW,
        doc="Add the headers __debezium.context.connectorLogicalName, taskId, connectorName, and runId to streamed changes.",
    )
    keys.define(
        "heartbeat.interval.ms", _N, 0, group=group, validator=at_least(0), doc="Interval of heartbeat records; 0 for none."
    )
    keys.define("heartbeat.action.query", _S, None, group=group, importance=_LOW, doc="SQL statement to run with each heartbeat.")
    keys.define(
        "topic.heartbeat.prefix",
        _S,
        "__debezium-heartbeat",
        group=group,
        importance=_LOW,
        doc="Heartbeats go to the topic <this prefix>.<topic.prefix>.",
    )
    keys.define(
        "topic.delimiter",
        _S,
        ".",
        group=group,
        importance=_LOW,
        doc=f"Delimiter between topic prefix, {word}, and table.",
        validator=PatternText(re.compile(r"[._-]+"), "only '.', '_', and '-'"),
    )
    keys.define(
        "max.batch.size",
        _N,
        2048,
        group=group,
        validator=at_least(1),
        doc="Maximum number of change events per poll. Snapshot rows are returned in larger batches.",
    )
    keys.define(
        "max.queue.size.in.bytes",
        _L,
        0,
        group=group,
        importance=_LOW,
        validator=at_least(0),
        doc="Maximum bytes of changes that a poll reads, at most and by default 8 MiB. A single change may be larger.",
    )
    keys.define(
        "poll.interval.ms",
        _L,
        500,
        group=group,
        validator=at_least(1),
        doc="Maximum wait of a poll for the first event; available events are returned immediately.",
    )


def _skipped_operations(name: str, value: Any) -> None:
    for part in split_list(value):
        if part not in ("c", "u", "d", "t", "none"):
            raise ConfigError.invalid(name, value, "expected a comma-separated list of c, u, d, t, or none")


def define_decimal_mode(keys: ConfigDef, types: str) -> None:
    keys.define(
        "decimal.handling.mode",
        _S,
        "precise",
        group="Types",
        validator=one_of("precise", "string", "double"),
        doc=f"Representation of {types}: Decimal, string, or double (which may round).",
    )


def define_binary_mode(keys: ConfigDef, types: str) -> None:
    keys.define(
        "binary.handling.mode",
        _S,
        "bytes",
        group="Types",
        validator=one_of("bytes", "base64", "base64-url-safe", "hex"),
        doc=f"Representation of {types}: bytes, or a string in base64 or hex.",
    )


def define_retry_keys(keys: ConfigDef) -> None:
    group = "Errors"
    keys.define(
        "errors.max.retries",
        _N,
        -1,
        group=group,
        importance=_LOW,
        validator=at_least(-1),
        doc="Number of attempts to reconnect before the task fails; -1 for no limit, 0 for none.",
    )
    keys.define(
        "retriable.restart.connector.wait.ms",
        _L,
        10_000,
        group=group,
        importance=_LOW,
        validator=at_least(0),
        doc="Maximum wait between two attempts; the first waits are shorter.",
    )


def define_table_limit_keys(keys: ConfigDef, group: str) -> None:
    keys.define(
        "guardrail.collections.max",
        _N,
        0,
        group=group,
        importance=_LOW,
        validator=at_least(0),
        doc="Maximum number of captured tables, for guardrail.collections.limit.action; 0 for no limit.",
    )
    keys.define(
        "guardrail.collections.limit.action",
        _S,
        "warn",
        group=group,
        importance=_LOW,
        validator=one_of("warn", "fail"),
        doc="What happens at the start if there are more captured tables: warn logs a warning, fail fails the task.",
        aliases=["guardrail.limit.action"],
    )
