"""The keys of the SQLite source. Those that every source has keep Debezium's names."""

from __future__ import annotations

import re

from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import Range, at_least, one_of
from connect.paths import AllowedPath
from connectors.cdc.config.contract_keys import define_contract_keys
from connectors.cdc.config.event_settings import define_event_form_keys
from connectors.cdc.config.signal_keys import define_signal_keys
from connectors.cdc.config.source_keys import (
    define_binary_mode,
    define_capture_keys,
    define_decimal_mode,
    define_event_keys,
    define_retry_keys,
    define_snapshot_table_keys,
    define_table_limit_keys,
    define_topic_prefix,
)
from connectors.cdc.config.topic_naming import SCHEMA_STRATEGIES, define_topic_naming_keys
from connectors.cdc.config.unsupported_keys import define_ignored_keys, define_unsupported_keys
from connectors.cdc.config.validators import PatternText, SupportedValues
from connectors.sqlite.types import KINDS
from connectors.sqlite.unsupported_keys import IGNORED, UNSUPPORTED

SNAPSHOT_MODES = ("initial", "initial_only", "always", "when_needed", "no_data", "never")
WORD = "schema"
"""What contains tables. The schema of a database file is always ``main``."""

S, N, L, B = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def config_def() -> ConfigDef:
    """Builds the ConfigDef; a new one on each call because it is mutable."""
    keys = ConfigDef()
    _connection_keys(keys)
    define_capture_keys(keys, WORD)
    _trigger_keys(keys)
    _snapshot_keys(keys)
    define_event_keys(keys, WORD)
    define_event_form_keys(keys, WORD)
    _type_keys(keys)
    define_retry_keys(keys)
    define_signal_keys(
        keys,
        WORD,
        example="main.orders",
        backfill_doc="Whether existing rows of a table that is created while the connector exists are read: created and all read "
        "them, none captures only changes. A key of Sluice.",
    )
    _safety_keys(keys)
    define_contract_keys(keys, WORD)
    define_topic_naming_keys(keys, WORD, SCHEMA_STRATEGIES)
    define_ignored_keys(keys, IGNORED)
    define_unsupported_keys(keys, UNSUPPORTED)
    return keys


def _connection_keys(keys: ConfigDef) -> None:
    group = "Connection"
    define_topic_prefix(keys)
    keys.define(
        "database.file",
        S,
        importance=HIGH,
        group=group,
        validator=AllowedPath(),
        doc="Path of the database file, on a local file system of the worker. The connector needs permission to write the file "
        "and its directory: it creates triggers and a table of changes.",
    )
    keys.define(
        "database.busy.timeout.ms",
        N,
        5_000,
        group=group,
        validator=at_least(0),
        doc="How long to wait for a lock that another process holds on the file. After that, the connector tries again as "
        "errors.max.retries says.",
    )


def _trigger_keys(keys: ConfigDef) -> None:
    group = "Triggers"
    keys.define(
        "capture.name",
        S,
        "",
        group=group,
        importance=LOW,
        validator=PatternText(re.compile(r"[a-z0-9]*"), "only lowercase letters and digits"),
        doc="Part of the names of the connector's tables and triggers, _sluice_<capture.name>_changes and others; "
        "_sluice_changes without it. A second connector of the same file needs another name.",
    )
    keys.define(
        "capture.drop.on.stop",
        B,
        False,
        group=group,
        doc="Drop the triggers and the connector's tables whenever the task stops: also for a restart, another configuration, a "
        "rebalance, and the shutdown of the worker. Changes until the next start are lost, so that start fails, unless "
        "snapshot.mode=when_needed or always takes a new snapshot. Set it right before you delete the connector.",
    )
    keys.define(
        "capture.loss.mode",
        S,
        "fail",
        group=group,
        validator=one_of("fail", "reread", "truncate"),
        doc="What happens if a captured table was without triggers for some time, because it was created again or somebody "
        "dropped them. Changes in that time are unknown. The triggers are created again at once. fail fails the task. reread "
        "emits all rows of the table again; rows that were deleted in that time remain in Kafka. truncate emits a truncate event "
        "first, whatever skipped.operations says, so that consumers that apply it have no such rows.",
    )


def _snapshot_keys(keys: ConfigDef) -> None:
    group = "Snapshot"
    keys.define(
        "snapshot.mode",
        S,
        "initial",
        group=group,
        importance=HIGH,
        validator=SupportedValues(SNAPSHOT_MODES, "expected one of " + ", ".join(SNAPSHOT_MODES)),
        doc="When to take a snapshot. initial: if no offset is stored. initial_only: the same, without streaming and without "
        "triggers. always: at each start. when_needed: also if the stored position is lost, for example because the file was "
        "replaced. no_data (never): never.",
    )
    define_snapshot_table_keys(keys, WORD)
    keys.define(
        "snapshot.transaction.max.ms",
        L,
        None,
        group=group,
        importance=LOW,
        validator=Range(1, nullable=True),
        doc="How long a transaction of the snapshot reads in WAL mode, where readers block nobody, but keep the WAL file from "
        "being reset. By default, one transaction reads all tables. In other journal modes, where writers wait for readers, each "
        "4,096 rows have a transaction. Between two transactions, changes are streamed, so that the rest of the snapshot is as "
        "of a later point in time.",
    )


def _type_keys(keys: ConfigDef) -> None:
    group = "Types"
    define_decimal_mode(keys, "columns declared as DECIMAL, NUMERIC, NUMBER, or MONEY")
    keys.define(
        "time.precision.mode",
        S,
        "text",
        group=group,
        validator=one_of("text", "adaptive", "connect"),
        doc="Representation of columns declared as DATE, TIME, DATETIME, or TIMESTAMP. text: as they are stored. adaptive: days "
        "and microseconds of ISO-8601 texts. connect: Connect's types in milliseconds. A value that does not fit is an error.",
    )
    define_binary_mode(keys, "blobs")
    keys.define(
        "column.types",
        S,
        None,
        group=group,
        doc="What columns are captured as, whatever they declare: <schema.table.column regular expression>:<kind>, "
        f"comma-separated. Kinds are {', '.join(KINDS)}; any is a struct with a field for each storage class.",
    )


def _safety_keys(keys: ConfigDef) -> None:
    group = "Source safety"
    define_table_limit_keys(keys, group)
    keys.define(
        "changes.lag.warn.rows",
        L,
        1_000_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Log a warning when more changes than these wait in the change table; 0 for no warning. They take space in the file.",
    )
