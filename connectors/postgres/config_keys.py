"""The keys of the PostgreSQL source: Debezium's names, defaults and meaning.

Three kinds: keys that work; keys that are taken and change nothing here (sizes of queues this connector has not got); and keys of
features that are not there, which are refused by name when they are set to something that would change the result.
"""

from __future__ import annotations

import re
from typing import Any

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import NonEmpty, at_least, one_of
from connect.errors import ConfigError
from connectors.postgres.config_validators import SLOT_NAME, TOPIC_PREFIX, Matches, Only, RegexList, split_list
from connectors.postgres.unsupported_keys import define_refused, define_taken

SNAPSHOT_MODES = ("initial", "initial_only", "always", "when_needed", "no_data", "never")


S, N, L, B, P = (
    ConfigType.STRING,
    ConfigType.INT,
    ConfigType.LONG,
    ConfigType.BOOLEAN,
    ConfigType.PASSWORD,
)  # columns of the table below
HIGH, MEDIUM, LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW


def config_def() -> ConfigDef:
    """The table. Built anew on each call, for a ConfigDef can be added to."""
    keys = ConfigDef()
    _connection_keys(keys)
    _capture_keys(keys)
    _replication_keys(keys)
    _snapshot_keys(keys)
    _event_keys(keys)
    _type_keys(keys)
    _error_keys(keys)
    define_taken(keys)
    define_refused(keys)
    return keys


def _connection_keys(keys: ConfigDef) -> None:
    group = "Connection"
    keys.define(
        "topic.prefix",
        S,
        importance=HIGH,
        group=group,
        validator=Matches(TOPIC_PREFIX, "letters, digits, '.', '_' and '-' only"),
        doc="Name of this database in Kafka: prefix of all topics, name of the source partition, part of the schema names. "
        "Never change it on a running pipeline: the stored position is found by it.",
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
        doc="User with LOGIN, REPLICATION and SELECT on the captured tables; to create the publication also CREATE on the "
        "database, for all_tables superuser.",
    )
    keys.define("database.password", P, None, importance=HIGH, group=group, doc="Password of the user.")
    keys.define(
        "database.dbname", S, importance=HIGH, group=group, validator=NonEmpty(), doc="Database whose changes are captured."
    )
    keys.define(
        "database.sslmode",
        S,
        "prefer",
        group=group,
        doc="TLS: disable, allow, prefer, require, verify-ca, verify-full.",
        validator=one_of("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    )
    keys.define("database.sslcert", S, None, group=group, importance=LOW, doc="File of the client's TLS certificate.")
    keys.define("database.sslkey", S, None, group=group, importance=LOW, doc="File of the client's TLS key.")
    keys.define("database.sslpassword", P, None, group=group, importance=LOW, doc="Password of the client's TLS key.")
    keys.define("database.sslrootcert", S, None, group=group, importance=LOW, doc="File of the certificates trusted as server's.")
    keys.define("database.tcpKeepAlive", B, True, group=group, importance=LOW, doc="Whether connections use TCP keep-alive.")
    keys.define(
        "database.initial.statements",
        S,
        None,
        group=group,
        importance=LOW,
        doc="SQL run on each ordinary (not replication) connection first; several are separated by ';', a ';' inside is doubled.",
    )
    keys.define(
        "database.query.timeout.ms",
        N,
        600_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="How long one catalogue query may take; 0 is no limit. Does not apply to reading a table.",
    )
    keys.define(
        "connection.validation.timeout.ms",
        L,
        60_000,
        group=group,
        importance=LOW,
        validator=at_least(100),
        doc="How long validation of a configuration may take to connect; at most 10 seconds are used.",
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
                doc=f"Comma separated regular expressions; each must match a whole name ({form}), in any case. Only one "
                "of include and "
                "exclude may be given. Key columns cannot be left out.",
            )
    keys.define(
        "message.key.columns",
        S,
        None,
        group=group,
        doc="Other key columns: <schema.table regex>:<column>,<column>;<schema.table regex>:<column>",
    )


def _replication_keys(keys: ConfigDef) -> None:
    group = "Replication"
    keys.define(
        "plugin.name",
        S,
        "decoderbufs",
        group=group,
        validator=Only(("pgoutput", "decoderbufs"), "this connector reads pgoutput only"),
        doc="pgoutput, which is part of PostgreSQL, is what is always used. Debezium's default decoderbufs is taken as such.",
    )
    keys.define(
        "slot.name",
        S,
        "debezium",
        group=group,
        validator=Matches(SLOT_NAME, "1 to 63 of lower case letters, digits and '_'"),
        doc="Replication slot of this connector; each connector needs its own. Made when it is not there.",
    )
    keys.define(
        "slot.drop.on.stop",
        B,
        False,
        group=group,
        doc="Drop the slot on an orderly stop. What changes until the next start is then lost: for trials only.",
    )
    keys.define("slot.failover", B, False, group=group, importance=LOW, doc="Make a failover slot (PostgreSQL 17 and later).")
    keys.define(
        "slot.max.retries",
        N,
        6,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="How often a slot that another session uses is tried again.",
    )
    keys.define(
        "slot.retry.delay.ms", L, 10_000, group=group, importance=LOW, validator=at_least(0), doc="The wait between those tries."
    )
    keys.define(
        "slot.stream.params",
        S,
        None,
        group=group,
        importance=LOW,
        doc="Further options for the output plugin: name=value;name=value",
    )
    keys.define(
        "create.slot.command.timeout",
        L,
        90,
        group=group,
        importance=LOW,
        validator=at_least(1),
        doc="Seconds that making the slot may take: it waits for all transactions that are open.",
    )
    keys.define("publication.name", S, "dbz_publication", group=group, validator=NonEmpty(), doc="Publication that is read.")
    keys.define(
        "publication.autocreate.mode",
        S,
        "all_tables",
        group=group,
        validator=one_of("all_tables", "filtered", "disabled", "no_tables"),
        doc="When the publication is missing: all_tables makes it FOR ALL TABLES, filtered for the captured tables (and "
        "keeps its list "
        "up to date), no_tables empty, disabled reports an error.",
    )
    keys.define(
        "publish.via.partition.root",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Changes of partitions appear under their root table (for a publication made here).",
    )
    keys.define(
        "replica.identity.autoset.values",
        S,
        None,
        group=group,
        importance=LOW,
        doc="Replica identities to set at start: <schema.table regex>:FULL|DEFAULT|NOTHING|INDEX <index>, comma separated.",
    )
    keys.define(
        "status.update.interval.ms",
        L,
        10_000,
        group=group,
        importance=LOW,
        validator=at_least(100),
        doc="How often the server is told that the connector is alive and what is done.",
    )
    keys.define(
        "lsn.flush.mode",
        S,
        "connector",
        group=group,
        importance=LOW,
        validator=one_of("connector", "connector_and_driver", "manual"),
        doc="connector: the slot moves on when offsets are stored in Kafka, and with the server's keep-alives while nothing is "
        "outstanding, so that an idle table does not hold back WAL. connector_and_driver is the same. manual: never.",
    )
    keys.define(
        "offset.mismatch.strategy",
        S,
        "no_validation",
        group=group,
        importance=LOW,
        validator=Only(
            ("no_validation",), "only no_validation is supported; positions that are ahead of the server are always refused"
        ),
        doc="What to do when stored offset and slot differ.",
    )


def _snapshot_keys(keys: ConfigDef) -> None:
    group = "Snapshot"
    keys.define(
        "snapshot.mode",
        S,
        "initial",
        group=group,
        importance=HIGH,
        validator=Only(SNAPSHOT_MODES, "expected one of " + ", ".join(SNAPSHOT_MODES)),
        doc="initial: when no offset is stored. initial_only: the same, without changes after it. always: at each start. "
        "when_needed: also "
        "when the stored position is gone. no_data (never): changes only.",
    )
    keys.define(
        "snapshot.include.collection.list",
        S,
        None,
        group=group,
        validator=RegexList(),
        doc="Captured tables (schema.table regular expressions) whose rows are read; default all.",
    )
    keys.define(
        "snapshot.select.statement.overrides",
        S,
        None,
        group=group,
        importance=LOW,
        doc="Tables (schema.table) read by a SELECT of their own: snapshot.select.statement.overrides.<schema.table>",
    )
    keys.define("snapshot.delay.ms", L, 0, group=group, importance=LOW, validator=at_least(0), doc="Wait before the snapshot.")
    keys.define(
        "streaming.delay.ms", L, 0, group=group, importance=LOW, validator=at_least(0), doc="Wait between snapshot and stream."
    )
    keys.define(
        "snapshot.tables.order.by.row.count",
        S,
        "disabled",
        group=group,
        importance=LOW,
        validator=one_of("disabled", "ascending", "descending"),
        doc="Order of tables by estimated rows.",
    )
    keys.define(
        "snapshot.isolation.mode",
        S,
        "serializable",
        group=group,
        importance=LOW,
        validator=Only(("serializable", "repeatable_read"), "the snapshot needs one point in time for all tables"),
        doc="Both values read all tables as of the slot's start, in a read-only REPEATABLE READ transaction.",
    )
    keys.define(
        "snapshot.locking.mode",
        S,
        "none",
        group=group,
        importance=LOW,
        validator=Only(("none", "shared"), "only none is supported"),
        doc="Tables are never locked.",
    )


def _event_keys(keys: ConfigDef) -> None:
    group = "Events"
    keys.define(
        "tombstones.on.delete", B, True, group=group, doc="A null value follows each delete, so that compaction drops the key."
    )
    keys.define(
        "skipped.operations",
        S,
        "t",
        group=group,
        doc="Operations left out, of c (insert), u, d, t (truncate); none for none.",
        validator=_skipped_operations,
    )
    keys.define(
        "skip.messages.without.change",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Leave out updates that change no included column (needs REPLICA IDENTITY FULL).",
    )
    keys.define(
        "heartbeat.interval.ms", N, 0, group=group, validator=at_least(0), doc="A heartbeat record each so many ms; 0 for none."
    )
    keys.define("heartbeat.action.query", S, None, group=group, importance=LOW, doc="SQL run with each heartbeat.")
    keys.define(
        "topic.heartbeat.prefix",
        S,
        "__debezium-heartbeat",
        group=group,
        importance=LOW,
        doc="Heartbeats go to <this>.<topic.prefix>.",
    )
    keys.define(
        "topic.delimiter",
        S,
        ".",
        group=group,
        importance=LOW,
        doc="Between topic prefix, schema and table.",
        validator=Matches(re.compile(r"[._-]+"), "of '.', '_' and '-' only"),
    )
    keys.define(
        "max.batch.size",
        N,
        2048,
        group=group,
        validator=at_least(1),
        doc="Most change events of one poll. Snapshot rows come in larger batches.",
    )
    keys.define(
        "poll.interval.ms",
        L,
        500,
        group=group,
        validator=at_least(1),
        doc="How long a poll waits for a first event. Events that are there never wait.",
    )


def _skipped_operations(name: str, value: Any) -> None:
    for part in split_list(value):
        if part not in ("c", "u", "d", "t", "none"):
            raise ConfigError.invalid(name, value, "expected a comma separated list of c, u, d, t, or none")


def _type_keys(keys: ConfigDef) -> None:
    group = "Types"
    keys.define(
        "decimal.handling.mode",
        S,
        "precise",
        group=group,
        validator=one_of("precise", "string", "double"),
        doc="numeric and money as Decimal, text or double (which may round).",
    )
    modes = ("adaptive", "adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds")
    keys.define(
        "time.precision.mode",
        S,
        "adaptive",
        group=group,
        validator=one_of(*modes),
        doc="Units of date, time and timestamp: by the column's precision (adaptive), Connect's ms types (which cut), ...",
    )
    keys.define(
        "binary.handling.mode",
        S,
        "bytes",
        group=group,
        validator=one_of("bytes", "base64", "base64-url-safe", "hex"),
        doc="bytea as bytes or as text.",
    )
    keys.define(
        "hstore.handling.mode", S, "json", group=group, validator=one_of("json", "map"), doc="hstore as JSON text or as a map."
    )
    keys.define(
        "interval.handling.mode",
        S,
        "numeric",
        group=group,
        validator=one_of("numeric", "string"),
        doc="interval as microseconds (a month is 30.4375 days) or as ISO 8601 text.",
    )
    keys.define("money.fraction.digits", N, 2, group=group, importance=LOW, validator=at_least(0), doc="Scale of money.")
    keys.define(
        "include.unknown.datatypes",
        B,
        False,
        group=group,
        importance=LOW,
        doc="Columns of types without a mapping are included as bytes of their text; otherwise left out with a warning.",
    )
    keys.define(
        "unavailable.value.placeholder",
        S,
        UNAVAILABLE_VALUE,
        group=group,
        doc="Stands for a TOASTed value that an update did not change and the server did not send.",
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
        doc="How often a lost connection is opened again before the task fails; -1 is without limit, 0 never.",
    )
    keys.define(
        "retriable.restart.connector.wait.ms",
        L,
        10_000,
        group=group,
        importance=LOW,
        validator=at_least(0),
        doc="The longest wait between two tries; the first come sooner.",
    )
