"""Reads the state of a replication slot, and of the standbys that it waits for."""

from __future__ import annotations

import re
from dataclasses import dataclass

from connectors.postgres.connection import Connection
from connectors.postgres.offsets import parse_lsn
from connectors.postgres.streaming.slots import WAL_END

_WAITS_FOR_STANDBY = "WaitForStandbyConfirmation"


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """A slot as the server reports it. ``safe_wal_size`` is what the server may still write before it removes WAL that the slot
    needs; None without a limit. ``invalidation`` is the reason why the slot is lost, "" if it is not known.
    """

    confirmed_lsn: int
    restart_lsn: int
    wal_status: str
    safe_wal_size: int | None
    is_active: bool
    active_pid: int | None
    waits_for_standby: bool
    invalidation: str

    @property
    def is_lost(self) -> bool:
        return self.wal_status == "lost"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The end of the server's WAL and its clock, with the slot; None if that does not exist."""

    time_s: float
    wal_end: int
    is_standby: bool
    slot: SlotStatus | None


def read_status(connection: Connection, slot_name: str) -> ServerStatus:
    """Reads the state with one query, which takes no locks."""
    version = connection.server_version
    invalidation = "s.invalidation_reason" if version >= 170000 else "null"
    rows = connection.query(
        f"select extract(epoch from clock_timestamp()), {WAL_END}, pg_is_in_recovery(), s.slot_name, s.confirmed_flush_lsn, "
        f"s.restart_lsn, s.wal_status, s.safe_wal_size, s.active_pid, a.wait_event, {invalidation} "
        "from (select 1) one left join pg_replication_slots s on s.slot_name = $1 left join pg_stat_activity a "
        "on a.pid = s.active_pid",
        [slot_name],
    )
    clock, end, standby, name, confirmed, restart, wal_status, safe, pid, wait_event, reason = rows[0]
    slot = None
    if name is not None:
        slot = SlotStatus(
            parse_lsn(confirmed or "0/0"),
            parse_lsn(restart or "0/0"),
            wal_status or "",
            int(safe) if safe is not None else None,
            pid is not None,
            int(pid) if pid is not None else None,
            wait_event == _WAITS_FOR_STANDBY,
            reason or "",
        )
    return ServerStatus(float(clock or 0), parse_lsn(end or "0/0"), standby == "t", slot)


def lagging_standbys(connection: Connection, wal_end: int) -> list[str]:
    """Describes the slots of ``synchronized_standby_slots`` that do not have all WAL, or do not exist."""
    setting = connection.query("select current_setting('synchronized_standby_slots', true)")[0][0] or ""
    names = [name.strip().strip('"') for name in re.split(",", setting) if name.strip()]
    found = {
        name: (restart, active)
        for name, restart, active in connection.query(
            "select slot_name, restart_lsn, active from pg_replication_slots where slot_type = 'physical'"
        )
    }
    lagging = []
    for name in names:
        if name not in found:
            lagging.append(f"{name} does not exist")
            continue
        restart, active = found[name]
        behind = wal_end - parse_lsn(restart or "0/0")
        if active != "t":
            lagging.append(f"no standby is connected to {name}")
        elif behind > 0:
            lagging.append(f"{name} is {behind} bytes behind")
    return lagging
