"""Keys for operating the source safely: checks while the task runs, thresholds, and guardrails."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigType
from connect.config.validators import at_least, one_of
from connectors.cdc.config.source_keys import define_table_limit_keys

_N, _L, _S, _P = ConfigType.INT, ConfigType.LONG, ConfigType.STRING, ConfigType.PASSWORD


def _primary_keys(keys: ConfigDef) -> None:
    group = "Standby"
    keys.define(
        "database.primary.hostname",
        _S,
        None,
        group=group,
        doc="Host of the primary, if database.hostname is a standby (PostgreSQL 16 and later). Publication, replica identities, "
        "and heartbeat.action.query are written there, and slots are created promptly. Not used when the server is a primary.",
    )
    keys.define(
        "database.primary.port", _N, 0, group=group, validator=at_least(0), doc="Port of the primary; 0 means database.port."
    )
    keys.define("database.primary.user", _S, None, group=group, doc="User on the primary. Default: database.user.")
    keys.define("database.primary.password", _P, None, group=group, doc="Password of that user. Default: database.password.")


def define_safety_keys(keys: ConfigDef) -> None:
    _primary_keys(keys)
    group = "Source safety"
    keys.define(
        "source.check.interval.ms",
        _L,
        10_000,
        group=group,
        validator=at_least(0),
        doc="Interval at which replication slot, WAL, publication, and captured tables are checked while the task runs, on a "
        "connection of its own; 0 turns the checks off, and with them the keys of this group that start with slot.",
    )
    keys.define(
        "slot.lag.warn.bytes",
        _L,
        10 << 30,
        group=group,
        validator=at_least(0),
        doc="Warn if the slot's confirmed position is more bytes of WAL behind the server; 0 turns the warning off.",
    )
    keys.define(
        "slot.lag.warn.ms",
        _L,
        3_600_000,
        group=group,
        validator=at_least(0),
        doc="Warn if the slot's confirmed position is older; 0 turns the warning off.",
    )
    keys.define(
        "slot.lag.max.bytes",
        _L,
        0,
        group=group,
        validator=at_least(0),
        doc="Limit of the slot's lag in bytes of WAL, for slot.lag.limit.action; 0 for no limit.",
    )
    keys.define(
        "slot.lag.max.ms",
        _L,
        0,
        group=group,
        validator=at_least(0),
        doc="Limit of the slot's lag in time, for slot.lag.limit.action; 0 for no limit.",
    )
    keys.define(
        "slot.lag.limit.action",
        _S,
        "fail",
        group=group,
        validator=one_of("fail", "warn", "drop_slot"),
        doc="What happens if the slot's lag exceeds a limit. fail fails the task (a paused one when it is resumed). warn logs a "
        "warning. drop_slot drops the slot, also while the task is paused, and fails the task: the server can remove the WAL, "
        "and a new snapshot is needed.",
    )
    keys.define(
        "slot.wal.loss.warn.ms",
        _L,
        3_600_000,
        group=group,
        validator=at_least(0),
        doc="Warn if the server will remove WAL that the slot needs within this time, as fast as the WAL has grown "
        "(max_slot_wal_keep_size); 0 turns the forecast off.",
    )
    define_table_limit_keys(keys, group)
