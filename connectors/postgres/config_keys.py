"""The keys of the PostgreSQL source, with Debezium's names, defaults, and meanings.

There are supported keys; ignored keys (such as sizes of queues that this connector does not have); and keys of unsupported
features, which are rejected if their value would change the result.
"""

from __future__ import annotations

from typing import Final

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import DistinctList, NonEmpty, at_least, one_of
from connect.paths import AllowedPath
from connectors.cdc.config.configured_mode import CONFIGURED, define_configured_mode
from connectors.cdc.config.contract_keys import define_contract_keys
from connectors.cdc.config.event_settings import define_event_form_keys
from connectors.cdc.config.post_processor_keys import define_post_processor_keys
from connectors.cdc.config.signal_keys import define_signal_keys
from connectors.cdc.config.source_keys import (
    define_binary_mode,
    define_capture_keys,
    define_decimal_mode,
    define_event_keys,
    define_query_timeout,
    define_retry_keys,
    define_snapshot_table_keys,
    define_snapshot_thread_keys,
    define_topic_prefix,
)
from connectors.cdc.config.topic_naming import SCHEMA_STRATEGIES, define_topic_naming_keys
from connectors.cdc.config.unsupported_keys import define_ignored_keys, define_unsupported_keys
from connectors.cdc.config.validators import PatternText, RegexList, SupportedValues
from connectors.postgres.config_validators import SLOT_NAME, PluginOptions
from connectors.postgres.safety_keys import define_safety_keys
from connectors.postgres.unsupported_keys import IGNORED, UNSUPPORTED

WORD: Final = "schema"
"""What contains tables."""
RESTORED_EVENTS: Final = "restore.debezium.events"

SNAPSHOT_MODES = ("initial", "initial_only", "always", "when_needed", "no_data", "never", CONFIGURED)
_RESTORED: Final = ("numeric_zeros", "time_24_00", "enum_array_nulls", "null_key_tombstones")
_BACKFILL_DOC: Final = (
    "Whether existing rows of a table that joins a publication of publication.autocreate.mode=filtered are read by an "
    "incremental snapshot. created: if the connector adds the table while it streams, so that the first rows of a new table "
    "are not missing. all: also if it adds the table when it starts, for example after a change of table.include.list. "
    "none: never, as in Debezium. A key of Sluice."
)

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
    define_capture_keys(keys, WORD)
    _replication_keys(keys)
    _snapshot_keys(keys)
    define_event_keys(keys, WORD, unchanged_needs=" (needs REPLICA IDENTITY FULL)")
    define_event_form_keys(keys, WORD)
    _event_keys(keys)
    _type_keys(keys)
    define_retry_keys(keys)
    define_signal_keys(keys, WORD, example="public.orders", backfill_doc=_BACKFILL_DOC)
    define_safety_keys(keys)
    define_contract_keys(keys, WORD)
    define_post_processor_keys(keys)
    define_topic_naming_keys(keys, WORD, SCHEMA_STRATEGIES)
    define_ignored_keys(keys, IGNORED)
    define_unsupported_keys(keys, UNSUPPORTED)
    return keys


def _connection_keys(keys: ConfigDef) -> None:
    group = "Connection"
    define_topic_prefix(keys)
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
    define_query_timeout(keys)


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
        "each start. when_needed: also if the stored position is lost. no_data (never): never. "
        f"{CONFIGURED}: what snapshot.mode.configuration.based.* say.",
    )
    define_configured_mode(keys)
    define_snapshot_table_keys(keys, WORD)
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
    define_snapshot_thread_keys(keys)


def _event_keys(keys: ConfigDef) -> None:
    for side in ("include", "exclude"):
        keys.define(
            f"message.prefix.{side}.list",
            S,
            None,
            group="Capture",
            validator=RegexList(),
            doc="Comma-separated regular expressions of prefixes of logical decoding messages (pg_logical_emit_message) to "
            f"{side}. They go to the topic <topic.prefix>.message. Set only one of include and exclude.",
        )
    keys.define(
        RESTORED_EVENTS,
        ConfigType.LIST,
        "",
        group="Events",
        importance=LOW,
        validator=DistinctList(_RESTORED, may_be_empty=True),
        doc="Events to write as Debezium does although they lose something, for consumers that rely on it: numeric_zeros (a "
        "numeric without a scale loses its trailing zeros), time_24_00 (24:00 is null with time.precision.mode=structured), "
        "enum_array_nulls (an array of an enum with a NULL becomes null), null_key_tombstones (tombstones follow the deletes "
        "of tables without a key).",
    )


def _type_keys(keys: ConfigDef) -> None:
    group = "Types"
    define_decimal_mode(keys, "numeric and money")
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
    define_binary_mode(keys, "bytea")
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
