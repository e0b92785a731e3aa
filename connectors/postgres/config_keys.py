"""The keys of the PostgreSQL source, with Debezium's names, defaults, and meanings.

There are supported keys; ignored keys (such as sizes of queues that this connector does not have); and keys of unsupported
features, which are rejected if their value would change the result.
"""

from __future__ import annotations

import re
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.parsing import split_list
from connect.config.validators import NonEmpty, at_least, one_of
from connect.errors import ConfigError
from connect.paths import AllowedPath
from connectors.cdc.config.contract_keys import define_contract_keys
from connectors.cdc.config.event_settings import define_event_form_keys
from connectors.cdc.config.post_processor_keys import define_post_processor_keys
from connectors.cdc.config.signal_keys import define_signal_keys
from connectors.cdc.config.topic_naming import define_topic_naming_keys
from connectors.cdc.config.validators import TOPIC_PREFIX, PatternText, RegexList, SupportedValues
from connectors.postgres.config_validators import SLOT_NAME, PluginOptions
from connectors.postgres.safety_keys import define_safety_keys
from connectors.postgres.unsupported_keys import define_ignored_keys, define_unsupported_keys

SNAPSHOT_MODES = ("initial", "initial_only", "always", "when_needed", "no_data", "never")


S, N, L, B, P = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
    ConfigType.PASSWORD,
)  # short names for the table below
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def config_def() -> ConfigDef:
    """Builds the ConfigDef; a new one on each call because it is mutable."""
    keys = ConfigDef()
    _connection_keys(keys)
    _capture_keys(keys)
    _replication_keys(keys)
    _snapshot_keys(keys)
    _event_keys(keys)
    define_event_form_keys(keys)
    _type_keys(keys)
    _error_keys(keys)
    define_signal_keys(keys)
    define_safety_keys(keys)
    define_contract_keys(keys)
    define_post_processor_keys(keys)
    define_topic_naming_keys(keys)
    define_ignored_keys(keys)
    define_unsupported_keys(keys)
    return keys


def _connection_keys(keys: ConfigDef) -> None:
    group = "Connection"
    keys.define(
        "topic.prefix",
        S,
        importance=HIGH,
        group=group,
        validator=PatternText(TOPIC_PREFIX, "only letters, digits, '.', '_', and '-'"),
        doc="Name of this database in Kafka: prefix of all topics, name of the source partition, and part of schema names. "
        "Do not change it on an existing connector: the stored offset depends on it.",
        aliases=["database.server.name"],
    )
    keys.define("database.hostname", S, importance=HIGH, group=group, validator=NonEmpty(), doc="Host of the PostgreSQL server.")
    keys.define("database.port", N, 5432, importance=HIGH, group=group, validator=at_least(1), doc="Port of the server.")
    keys.define(
        "database.user",
        S,
        importance=HIGH,
        group=group,
        validator=NonEmpty(),
        doc="User with LOGIN, REPLICATION, and SELECT on the captured tables. Creating the publication also needs CREATE on "
        "the database, or superuser for all_tables.",
    )
    keys.define("database.password", P, None, importance=HIGH, group=group, doc="Password of the user.")
    keys.define("database.dbname", S, importance=HIGH, group=group, validator=NonEmpty(), doc="Database to capture changes from.")
    keys.define(
        "database.sslmode",
        S,
        "prefer",
        group=group,
        doc="TLS: disable, allow, prefer, require, verify-ca, verify-full.",
        validator=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    )
    keys.define(
        "database.sslcert",
        S,
        None,
        validator=AllowedPath(),
        group=group,
        importance=LOW,
        doc="File of the client's TLS certificate.",
    )
    keys.define(
        "database.sslkey", S, None, validator=AllowedPath(), group=group, importance=LOW, doc="File of the client's TLS key."
    )
    keys.define("database.sslpassword", P, None, group=group, importance=LOW, doc="Password of the client's TLS key.")
    keys.define(
        "database.sslrootcert",
        S,
        None,
        validator=AllowedPath(),
        group=group,
        importance=LOW,
        doc="File of trusted server certificates.",
    )
    keys.define("database.tcpKeepAlive", B, True, group=group, importance=LOW, doc="Whether connections use TCP keep-alive.")
    keys.define(
        "database.initial.statements",
        S,
        None,
        group=group,
        importance=LOW,
        doc="SQL statements to run first on each connection except replication connections, separated by ';' (';;' is a ';').",
    )
    keys.define(
        "database.query.timeout.ms",
        N,
        600_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Timeout of a catalog query, after which it is tried on a new connection; 0 for no limit. Does not apply to reading "
        "tables.",
    )
    keys.define(
        "connection.validation.timeout.ms",
        L,
        60_000,
        group=group,
        importance=LOW,
        validator=at_least(100),
        doc="Connect timeout of configuration validation; at most 10 seconds.",
    )


def _capture_keys(keys: ConfigDef) -> None:
    group = "Capture"
    for what, form in (("schema", "schema"), ("table", "schema.table"), ("column", "schema.table.column")):
        for side in ("include", "exclude"):
            keys.define(
                f"{what}.{side}.list",
                S,
                None,
                group=group,
                importance=HIGH if what == "table" else MEDIUM,
                validator=RegexList(),
                doc=f"Comma-separated regular expressions; each must match a whole name ({form}), case-insensitively. Set "
                "only one of include and exclude. Key columns are always captured.",
            )
    keys.define(
        "message.key.columns",
        S,
        None,
        group=group,
        doc="Key columns that replace the primary key: <schema.table regex>:<column>,<column>;<schema.table regex>:<column>",
    )


def _replication_keys(keys: ConfigDef) -> None:
    group = "Replication"
    keys.define(
        "plugin.name",
        S,
        "decoderbufs",
        group=group,
        validator=SupportedValues(("pgoutput", "decoderbufs"), "this connector reads pgoutput only"),
        doc="The connector always uses pgoutput, which is part of PostgreSQL; Debezium's default decoderbufs means the same.",
    )
    keys.define(
        "slot.name",
        S,
        "debezium",
        group=group,
        validator=PatternText(SLOT_NAME, "1 to 63 lowercase letters, digits, and '_'"),
        doc="Replication slot of this connector; each connector needs its own. Created if it does not exist.",
    )
    keys.define(
        "slot.drop.on.stop",
        B,
        False,
        group=group,
        doc="Drop the slot when the task stops. Changes until the next start are lost: only for tests.",
    )
    keys.define("slot.failover", B, False, group=group, importance=LOW, doc="Create a failover slot (PostgreSQL 17 and later).")
    keys.define(
        "slot.max.retries",
        N,
        6,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Maximum number of retries while another session uses the slot.",
    )
    keys.define(
        "slot.retry.delay.ms", L, 10_000, group=group, importance=LOW, validator=at_least(0), doc="Wait between these retries."
    )
    keys.define(
        "slot.stream.params",
        S,
        None,
        group=group,
        importance=LOW,
        validator=PluginOptions(),
        doc="Additional options of the output plugin: name=value;name=value. Options that change the protocol are rejected.",
    )
    keys.define(
        "create.slot.command.timeout",
        L,
        90,
        group=group,
        importance=LOW,
        validator=at_least(1),
        doc="Timeout in seconds to create the slot, which waits for all open transactions.",
    )
    keys.define("publication.name", S, "dbz_publication", group=group, validator=NonEmpty(), doc="Publication to read from.")
    keys.define(
        "publication.autocreate.mode",
        S,
        "all_tables",
        group=group,
        validator=one_of("all_tables", "filtered", "disabled", "no_tables"),
        doc="How to create a missing publication: all_tables creates it FOR ALL TABLES, filtered for the captured tables (and "
        "keeps its list up to date), no_tables without tables; disabled fails.",
    )
    keys.define(
        "publish.via.partition.root",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Publish changes of partitions as changes of their root table (if the connector creates the publication).",
    )
    keys.define(
        "replica.identity.autoset.values",
        S,
        None,
        group=group,
        importance=LOW,
        doc="Replica identities to set at the start: <schema.table regex>:FULL|DEFAULT|NOTHING|INDEX <index>, comma-separated.",
    )
    keys.define(
        "status.update.interval.ms",
        L,
        10_000,
        group=group,
        importance=LOW,
        validator=at_least(100),
        doc="Interval between status updates to the server, which keep the session alive and confirm the flush LSN.",
    )
    keys.define(
        "lsn.flush.mode",
        S,
        "connector",
        group=group,
        importance=LOW,
        validator=one_of("connector", "connector_and_driver", "manual"),
        doc="connector confirms the position of the stream each time it is stored with the offsets, also if no captured table "
        "has changed, so that idle tables do not retain WAL. connector_and_driver also confirms WAL without captured changes "
        "between flushes, if all records are stored: the slot is then ahead of the stored offset, so offset.mismatch.strategy is "
        "trust_greater_lsn unless it is set, and heartbeat.interval.ms is 600000 unless it is set. manual never confirms.",
    )
    keys.define(
        "flush.lsn.source",
        B,
        True,
        group=group,
        importance=LOW,
        doc="Deprecated by Debezium: false means lsn.flush.mode=manual, unless that key is set.",
    )
    keys.define(
        "lsn.flush.timeout.ms",
        L,
        30_000,
        group=group,
        importance=LOW,
        validator=at_least(1),
        doc="Time in which the connection must take a status update that confirms a position.",
    )
    keys.define(
        "lsn.flush.timeout.action",
        S,
        "fail",
        group=group,
        importance=LOW,
        validator=one_of("fail", "warn", "ignore"),
        doc="What happens after lsn.flush.timeout.ms: fail fails the task, warn logs a warning, ignore continues.",
    )
    keys.define(
        "wal.receiver.timeout.ms",
        L,
        60_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Reconnect if the server has sent nothing for this time, although it was asked for an answer; 0 waits forever.",
    )
    keys.define(
        "offset.mismatch.strategy",
        S,
        "trust_offset",
        group=group,
        importance=LOW,
        validator=one_of("no_validation", "trust_offset", "trust_slot", "trust_greater_lsn"),
        doc="How to handle a slot that is not at the stored offset. trust_offset fails if the slot is ahead, because changes are "
        "missing, and advances a slot that is behind. trust_slot continues from a slot that is ahead, and with a publication "
        "that was dropped. trust_greater_lsn continues from whichever is ahead. no_validation starts at the stored offset and "
        "does not check whether the server is the same. If the key is not set, offsets that earlier releases or Debezium stored "
        "are not rejected.",
    )
    keys.define(
        "slot.seek.to.known.offset.on.start",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Deprecated by Debezium: true means offset.mismatch.strategy=trust_offset, unless that key is set.",
        aliases=["internal.slot.seek.to.known.offset.on.start"],
    )
    keys.define(
        "xmin.fetch.interval.ms",
        L,
        0,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Interval at which the slot's catalog_xmin is read for source.xmin of change events; 0 leaves it null.",
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
        doc="When to take a snapshot. initial: if no offset is stored. initial_only: the same, without streaming. always: at "
        "each start. when_needed: also if the stored position is lost. no_data (never): never.",
    )
    keys.define(
        "snapshot.include.collection.list",
        S,
        None,
        group=group,
        validator=RegexList(),
        doc="Captured tables (schema.table regular expressions) to read in the snapshot. Default: all.",
    )
    keys.define(
        "snapshot.select.statement.overrides",
        S,
        None,
        group=group,
        importance=LOW,
        doc="Tables (schema.table) whose snapshot uses the SELECT in snapshot.select.statement.overrides.<schema.table>",
    )
    keys.define("snapshot.delay.ms", L, 0, group=group, importance=LOW, validator=at_least(0), doc="Delay before the snapshot.")
    keys.define(
        "streaming.delay.ms",
        L,
        0,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Delay between snapshot and streaming.",
    )
    keys.define(
        "snapshot.tables.order.by.row.count",
        S,
        "disabled",
        group=group,
        importance=LOW,
        validator=one_of("disabled", "ascending", "descending"),
        doc="Order of tables in the snapshot, by estimated number of rows.",
    )
    keys.define(
        "snapshot.isolation.mode",
        S,
        "serializable",
        group=group,
        importance=LOW,
        validator=SupportedValues(
            ("serializable", "repeatable_read"), "the snapshot needs the same point in time for all tables"
        ),
        doc="Both values read all tables as of the slot's start, in a read-only REPEATABLE READ transaction.",
    )
    keys.define(
        "snapshot.locking.mode",
        S,
        "none",
        group=group,
        importance=LOW,
        validator=SupportedValues(("none", "shared"), "expected none or shared"),
        doc="Snapshots lock all their tables in ACCESS SHARE mode, so that no ALTER TABLE or TRUNCATE rewrites them; reads and "
        "writes continue. none waits for the locks without a limit, shared for snapshot.lock.timeout.ms.",
    )
    keys.define(
        "snapshot.lock.timeout.ms",
        L,
        10_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Timeout of the table locks with snapshot.locking.mode=shared.",
    )
    keys.define(
        "snapshot.max.threads",
        N,
        1,
        group=group,
        validator=at_least(1),
        doc="Connections that read the snapshot in parallel, all as of the same point in time.",
    )
    keys.define(
        "snapshot.max.threads.multiplier",
        N,
        1,
        group=group,
        importance=LOW,
        validator=at_least(1),
        doc="With several snapshot.max.threads, large tables are read in at least snapshot.max.threads times this number of key "
        "ranges.",
    )
    keys.define(
        "legacy.snapshot.max.threads",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Read each table on one connection, also with several snapshot.max.threads.",
    )
    keys.define(
        "snapshot.resume.enabled",
        B,
        True,
        group=group,
        importance=LOW,
        doc="Store which rows of an incomplete snapshot are completed, and read only the others after a restart. Tables are read "
        "in the order of their keys then. false reads them in the order in which they are stored, and starts over.",
    )


def _event_keys(keys: ConfigDef) -> None:
    group = "Events"
    keys.define(
        "tombstones.on.delete",
        B,
        True,
        group=group,
        doc="Whether a tombstone follows each delete, so that log compaction removes the key.",
    )
    keys.define(
        "skipped.operations",
        S,
        "t",
        group=group,
        doc="Operations to skip: c (insert), u (update), d (delete), t (truncate), or none.",
        validator=_skipped_operations,
    )
    keys.define(
        "skip.messages.without.change",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Skip updates that change no captured column (needs REPLICA IDENTITY FULL).",
    )
    keys.define(
        "extended.headers.enabled",
        B,
        True,
        group=group,
        importance=LOW,
        doc="Add the headers __debezium.context.connectorLogicalName, taskId, connectorName, and runId to streamed changes.",
    )
    keys.define(
        "heartbeat.interval.ms", N, 0, group=group, validator=at_least(0), doc="Interval of heartbeat records; 0 for none."
    )
    keys.define("heartbeat.action.query", S, None, group=group, importance=LOW, doc="SQL statement to run with each heartbeat.")
    keys.define(
        "topic.heartbeat.prefix",
        S,
        "__debezium-heartbeat",
        group=group,
        importance=LOW,
        doc="Heartbeats go to the topic <this prefix>.<topic.prefix>.",
    )
    keys.define(
        "topic.delimiter",
        S,
        ".",
        group=group,
        importance=LOW,
        doc="Delimiter between topic prefix, schema, and table.",
        validator=PatternText(re.compile(r"[._-]+"), "only '.', '_', and '-'"),
    )
    keys.define(
        "max.batch.size",
        N,
        2048,
        group=group,
        validator=at_least(1),
        doc="Maximum number of change events per poll. Snapshot rows are returned in larger batches.",
    )
    keys.define(
        "max.queue.size.in.bytes",
        L,
        0,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Maximum bytes of changes that a poll reads, at most and by default 8 MiB. A single change may be larger.",
    )
    keys.define(
        "poll.interval.ms",
        L,
        500,
        group=group,
        validator=at_least(1),
        doc="Maximum wait of a poll for the first event; available events are returned immediately.",
    )


def _skipped_operations(name: str, value: Any) -> None:
    for part in split_list(value):
        if part not in ("c", "u", "d", "t", "none"):
            raise ConfigError.invalid(name, value, "expected a comma-separated list of c, u, d, t, or none")


def _type_keys(keys: ConfigDef) -> None:
    group = "Types"
    keys.define(
        "decimal.handling.mode",
        S,
        "precise",
        group=group,
        validator=one_of("precise", "string", "double"),
        doc="Representation of numeric and money: Decimal, string, or double (which may round).",
    )
    modes = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds", "structured")
    keys.define(
        "time.precision.mode",
        S,
        "adaptive",
        group=group,
        validator=one_of(*modes),
        doc="Representation of date, time, and timestamp: by the column's precision (adaptive), Connect's types in ms (which "
        "truncate), ISO strings, microseconds, nanoseconds, or structs of their parts (structured), also of those with a zone.",
    )
    keys.define(
        "binary.handling.mode",
        S,
        "bytes",
        group=group,
        validator=one_of("bytes", "base64", "base64-url-safe", "hex"),
        doc="Representation of bytea: bytes, or a string in base64 or hex.",
    )
    keys.define(
        "hstore.handling.mode",
        S,
        "json",
        group=group,
        validator=one_of("json", "map"),
        doc="Representation of hstore: a JSON string or a map.",
    )
    keys.define(
        "interval.handling.mode",
        S,
        "numeric",
        group=group,
        validator=one_of("numeric", "string"),
        doc="Representation of interval: microseconds (a month is 30.4375 days) or an ISO 8601 string.",
    )
    keys.define("money.fraction.digits", N, 2, group=group, importance=LOW, validator=at_least(0), doc="Scale of money.")
    keys.define(
        "include.unknown.datatypes",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Capture columns of unsupported types as the bytes of their text; otherwise they are omitted with a warning.",
    )
    keys.define(
        "unavailable.value.placeholder",
        S,
        UNAVAILABLE_VALUE,
        group=group,
        doc="Placeholder for an unavailable value: a TOAST value that an update did not change.",
    )


def _error_keys(keys: ConfigDef) -> None:
    group = "Errors"
    keys.define(
        "errors.max.retries",
        N,
        -1,
        group=group,
        importance=LOW,
        validator=at_least(-1),
        doc="Number of attempts to reconnect before the task fails; -1 for no limit, 0 for none.",
    )
    keys.define(
        "retriable.restart.connector.wait.ms",
        L,
        10_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="Maximum wait between two attempts; the first waits are shorter.",
    )
