"""The keys of the MySQL and MariaDB sources, with Debezium's names, defaults, and meanings.

There are supported keys; ignored keys (such as sizes of queues that this connector does not have); and keys of unsupported
features, which are rejected if their value would change the result. The two connectors differ in defaults and a few values.
"""

from __future__ import annotations

from typing import Final

from connect.change_events.toast import UNAVAILABLE_VALUE
from connect.config.definition import ConfigDef, ConfigType, Importance
from connect.config.validators import NonEmpty, at_least, between
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
    define_table_limit_keys,
    define_topic_prefix,
)
from connectors.cdc.config.topic_naming import DATABASE_STRATEGIES, define_topic_naming_keys
from connectors.cdc.config.unsupported_keys import define_ignored_keys, define_unsupported_keys
from connectors.cdc.config.validators import RegexList, SupportedValues
from connectors.mysql.history_keys import define_history_keys
from connectors.mysql.unsupported_keys import IGNORED, unsupported_keys

WORD: Final = "database"
"""What contains tables."""

SNAPSHOT_MODES: Final = ("initial", "initial_only", "always", "when_needed", "no_data", "recovery", CONFIGURED)
OLD_SNAPSHOT_MODES: Final = {"never": "no_data", "schema_only": "no_data", "schema_only_recovery": "recovery"}
"""Names of older releases."""
LOCKING_MODES: Final = (
    "minimal",
    "extended",
    "none",
    "minimal_percona",
    "minimal_percona_no_table_locks",
    "minimal_at_least_once",
)
MYSQL_TLS_MODES: Final = ("disabled", "preferred", "required", "verify_ca", "verify_identity")
MARIADB_TLS_MODES: Final = {
    "disable": "disabled",
    "trust": "required",
    "verify-ca": "verify_ca",
    "verify-full": "verify_identity",
}
"""MariaDB's names of the modes."""
TIME_MODES: Final = ("adaptive_time_microseconds", "connect", "isostring", "microseconds", "nanoseconds", "structured")
MOST_SERVER_ID: Final = 0xFFFFFFFF

_S, _N, _L, _B, _P = ConfigType.STRING, ConfigType.INT, ConfigType.LONG, ConfigType.BOOLEAN, ConfigType.PASSWORD
_HIGH, _LOW = Importance.HIGH, Importance.LOW

_BACKFILL_DOC: Final = (
    "Whether existing rows of a table that is captured for the first time are read by an incremental snapshot. all: if a change "
    "of the configuration captures it when the connector starts. created: as none, because the binary log has all rows of a "
    "table that is created while the connector streams. none: never, as in Debezium. A key of Sluice."
)


def config_def(*, is_mariadb: bool = False) -> ConfigDef:
    """Builds the ConfigDef of one of the two connectors; a new one on each call because it is mutable."""
    keys = ConfigDef()
    _connection_keys(keys, is_mariadb=is_mariadb)
    define_capture_keys(keys, WORD)
    _binlog_keys(keys, is_mariadb=is_mariadb)
    define_history_keys(keys)
    _snapshot_keys(keys)
    define_event_keys(keys, WORD, unchanged_needs=" (needs binlog_row_image=FULL)")
    _statement_keys(keys)
    define_event_form_keys(keys, WORD)
    _type_keys(keys)
    _error_keys(keys)
    define_signal_keys(keys, WORD, example="shop.orders", backfill_doc=_BACKFILL_DOC)
    define_table_limit_keys(keys, "Source safety")
    define_contract_keys(keys, WORD)
    define_post_processor_keys(keys)
    define_topic_naming_keys(keys, WORD, DATABASE_STRATEGIES)
    define_ignored_keys(keys, IGNORED)
    define_unsupported_keys(keys, unsupported_keys(is_mariadb=is_mariadb))
    return keys


def _connection_keys(keys: ConfigDef, *, is_mariadb: bool) -> None:
    group = "Connection"
    define_topic_prefix(keys)
    product = "MariaDB" if is_mariadb else "MySQL"
    keys.define(
        "database.hostname", _S, importance=_HIGH, group=group, validator=NonEmpty(), doc=f"Host of the {product} server."
    )
    keys.define("database.port", _N, 3306, importance=_HIGH, group=group, validator=between(1, 65535), doc="Port of the server.")
    keys.define(
        "database.user",
        _S,
        importance=_HIGH,
        group=group,
        validator=NonEmpty(),
        doc="User with REPLICATION SLAVE, REPLICATION CLIENT (MariaDB: BINLOG MONITOR), SELECT on the captured tables, and for "
        "snapshots RELOAD, or LOCK TABLES where the global read lock is not allowed.",
    )
    keys.define("database.password", _P, None, importance=_HIGH, group=group, doc="Password of the user.")
    keys.define(
        "database.server.id",
        _L,
        importance=_HIGH,
        group=group,
        validator=between(1, MOST_SERVER_ID),
        doc="Server ID with which the connector registers as a replica. It must differ from those of all servers and other "
        "replicas: of two with the same ID, the server disconnects the first one.",
    )
    _tls_keys(keys, is_mariadb=is_mariadb)
    keys.define(
        "connect.timeout.ms",
        _N,
        30_000,
        group=group,
        importance=_LOW,
        validator=at_least(1),
        doc="Time in which a connection must be established and authenticated.",
    )
    keys.define(
        "connect.keep.alive",
        _B,
        True,
        group=group,
        importance=_LOW,
        doc="Whether connections use TCP keep-alive, and the server sends heartbeats while it has no changes; a server that "
        "sends nothing is taken for lost.",
    )
    keys.define(
        "connect.keep.alive.interval.ms",
        _L,
        60_000,
        group=group,
        importance=_LOW,
        validator=at_least(100),
        doc="Interval of the server's heartbeats is 80% of this. The connection is lost after two intervals without any.",
    )
    keys.define(
        "database.initial.statements",
        _S,
        None,
        group=group,
        importance=_LOW,
        doc="SQL statements to run first on each connection except the one that reads the binary log, separated by ';' (';;' is "
        "a ';').",
    )
    define_query_timeout(keys)


def _tls_keys(keys: ConfigDef, *, is_mariadb: bool) -> None:
    group = "TLS"
    modes = tuple(MARIADB_TLS_MODES) if is_mariadb else MYSQL_TLS_MODES
    keys.define(
        "database.ssl.mode",
        _S,
        "disable" if is_mariadb else "preferred",
        group=group,
        validator=SupportedValues((*MYSQL_TLS_MODES, *MARIADB_TLS_MODES), f"expected one of {', '.join(modes)}"),
        doc=(
            "TLS: disable; trust encrypts without checking the certificate; verify-ca checks its issuer, verify-full also its "
            "host name."
            if is_mariadb
            else "TLS: disabled; preferred, if the server offers it; required, without checking the certificate; verify_ca "
            "checks its issuer, verify_identity also its host name."
        ),
    )
    for what, doc in (
        ("keystore", "with the client's key and certificate"),
        ("truststore", "with the certificates that are trusted; by default those of the system"),
    ):
        keys.define(
            f"database.ssl.{what}",
            _S,
            None,
            group=group,
            importance=_LOW,
            validator=AllowedPath(),
            doc=f"File {doc}: PEM, PKCS12, or JKS.",
        )
        keys.define(f"database.ssl.{what}.password", _P, None, group=group, importance=_LOW, doc=f"Password of the {what}.")


def _binlog_keys(keys: ConfigDef, *, is_mariadb: bool) -> None:
    group = "Binary log"
    source = "<domain>-<server> of MariaDB's GTIDs" if is_mariadb else "UUIDs of the servers of GTIDs"
    for side, verb in (("includes", "are"), ("excludes", "are not")):
        keys.define(
            f"gtid.source.{side}",
            _S,
            None,
            group=group,
            validator=RegexList(),
            doc=f"Comma-separated regular expressions of the {source} that {verb} read. Set only one of includes and excludes.",
        )
    keys.define(
        "gtid.source.filter.dml.events",
        _B,
        True,
        group=group,
        importance=_LOW,
        doc="Whether changes of sources that are not read are left out of the stream too, not only of the position where it "
        "starts.",
    )
    keys.define(
        "gtid.ignore.on.recovery",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc="Continue at the stored file and position instead of the stored GTIDs.",
    )
    keys.define(
        "include.query",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc="Add the statement that caused a change to its source block. Needs "
        + ("binlog_annotate_row_events=ON." if is_mariadb else "binlog_rows_query_log_events=ON."),
    )
    for what in ("write", "read"):
        keys.define(
            f"binlog.net.{what}.timeout",
            _L,
            0,
            group=group,
            importance=_LOW,
            validator=at_least(0),
            doc=f"net_{what}_timeout in seconds of the connection that reads the binary log; 0 for the server's own.",
        )


def _snapshot_keys(keys: ConfigDef) -> None:
    group = "Snapshot"
    keys.define(
        "snapshot.mode",
        _S,
        "initial",
        group=group,
        importance=_HIGH,
        validator=SupportedValues((*SNAPSHOT_MODES, *OLD_SNAPSHOT_MODES), "expected one of " + ", ".join(SNAPSHOT_MODES)),
        doc="When to take a snapshot. initial: if no offset is stored. initial_only: the same, without streaming. always: at "
        "each start. when_needed: also if the stored position is lost. no_data (schema_only, never): of the tables' structure "
        "only. recovery (schema_only_recovery): of the structure, to rebuild a lost schema history; nothing may have altered "
        f"tables since the stored position. {CONFIGURED}: what snapshot.mode.configuration.based.* say.",
    )
    define_configured_mode(keys)
    define_snapshot_table_keys(keys, WORD)
    keys.define(
        "snapshot.isolation.mode",
        _S,
        "repeatable_read",
        group=group,
        importance=_LOW,
        validator=SupportedValues(
            ("repeatable_read", "serializable"), "the snapshot needs the same point in time for all tables"
        ),
        doc="Both values read all tables as of one position of the binary log, in a REPEATABLE READ transaction.",
    )
    keys.define(
        "snapshot.locking.mode",
        _S,
        "minimal",
        group=group,
        importance=_LOW,
        validator=SupportedValues(LOCKING_MODES, "expected one of " + ", ".join(LOCKING_MODES)),
        doc="How writes are held up while a snapshot begins. minimal: by a global read lock, or locks of the captured tables, "
        "until position and structure are read; minimal_percona: by Percona's backup lock; extended: until all rows are read; "
        "none: not at all, which is safe only if nothing alters tables meanwhile.",
    )
    keys.define(
        "snapshot.lock.timeout.ms",
        _L,
        10_000,
        group=group,
        importance=_LOW,
        validator=at_least(0),
        doc="Timeout of these locks.",
    )
    keys.define(
        "snapshot.query.mode",
        _S,
        "select_all",
        group=group,
        importance=_LOW,
        validator=SupportedValues(
            ("select_all",), "only select_all; use snapshot.select.statement.overrides for other statements"
        ),
        doc="Snapshots read whole tables, or what snapshot.select.statement.overrides says.",
    )
    define_snapshot_thread_keys(keys)


def _statement_keys(keys: ConfigDef) -> None:
    group = "Events"
    keys.define(
        "include.schema.changes",
        _B,
        True,
        group=group,
        doc="Write changes of the structure of databases and tables to the topic <topic.prefix>.",
    )
    keys.define(
        "include.schema.comments",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc="Whether schemas and the schema history have the comments of tables and columns.",
    )


def _type_keys(keys: ConfigDef) -> None:
    group = "Types"
    define_decimal_mode(keys, "decimal")
    keys.define(
        "time.precision.mode",
        _S,
        TIME_MODES[0],
        group=group,
        validator=SupportedValues(TIME_MODES, "expected one of " + ", ".join(TIME_MODES)),
        doc="Representation of date, time, and datetime: by the column's precision and time always in microseconds "
        "(adaptive_time_microseconds), Connect's types in ms (which truncate), ISO strings, microseconds, nanoseconds, or "
        "structs of their parts (structured).",
    )
    keys.define(
        "bigint.unsigned.handling.mode",
        _S,
        "long",
        group=group,
        validator=SupportedValues(("long", "precise"), "expected long or precise"),
        doc="Representation of bigint unsigned: int64, which has no room for values from 2^63 on, or Decimal (precise).",
    )
    define_binary_mode(keys, "binary, varbinary, and blob")
    keys.define(
        "enable.time.adjuster",
        _B,
        True,
        group=group,
        importance=_LOW,
        doc="Whether years of two digits become those from 1970 to 2069, as the server itself does.",
    )
    keys.define(
        "unavailable.value.placeholder",
        _S,
        UNAVAILABLE_VALUE,
        group=group,
        doc="Placeholder for an unavailable value: one that the binary log omits with binlog_row_image=NOBLOB. A text, or its "
        "UTF-8 bytes in hexadecimal behind hex:.",
    )


def _error_keys(keys: ConfigDef) -> None:
    group = "Errors"
    define_retry_keys(keys)
    keys.define(
        "event.deserialization.failure.handling.mode",
        _S,
        None,
        group=group,
        importance=_LOW,
        validator=SupportedValues(("fail", "warn", "ignore", "skip"), "expected fail, warn, ignore, or skip"),
        doc="Deprecated by Debezium: means event.processing.failure.handling.mode, unless that key is set.",
    )
    keys.define(
        "inconsistent.schema.handling.mode",
        _S,
        "fail",
        group=group,
        importance=_LOW,
        validator=SupportedValues(("fail", "warn", "skip", "ignore"), "expected fail, warn, skip, or ignore"),
        doc="What becomes of changes of a captured table that the schema history does not have, or has with other columns: fail "
        "fails the task, warn skips them with a warning, skip and ignore silently.",
    )
    keys.define(
        "resolve.create.table.like.schema",
        _B,
        False,
        group=group,
        importance=_LOW,
        doc="Ask the server for the structure of a table that CREATE TABLE ... LIKE names and the schema history does not have.",
    )
