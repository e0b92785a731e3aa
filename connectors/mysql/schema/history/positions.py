"""Compares positions of history records with a stored offset, as Debezium's comparators do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from connect.errors import DataError
from connectors.mysql.binlog import GtidSet, MariaDbGtid

log = logging.getLogger(__name__)

Position = Mapping[str, Any]
_AnySet = GtidSet | frozenset[MariaDbGtid]


class PositionComparison:
    """Says which records precede a position. Positions are source offsets of the connector."""

    def __init__(self, *, is_mariadb: bool, is_source_included: Callable[[str], bool] | None = None) -> None:
        """``is_source_included`` is the filter of ``gtid.source.includes`` or ``.excludes``: of a UUID, for MariaDB of
        ``domain-server``."""
        self._is_mariadb = is_mariadb
        self._is_included = is_source_included
        self._reported: set[tuple[str, str]] = set()

    def is_at_or_before(self, recorded: Position, desired: Position) -> bool:
        """Returns whether a recorded position is at or before the desired one.

        Once a server has GTIDs, it is assumed to keep them: a position with GTIDs follows all without. Raises DataError for a
        position that cannot be read.
        """
        recorded_gtids, desired_gtids = recorded.get("gtids"), desired.get("gtids")
        if desired_gtids is not None:
            return recorded_gtids is None or self._has_gtids_before(recorded, desired)
        if recorded_gtids is not None:
            return False
        servers = recorded.get("server_id"), desired.get("server_id")
        if None not in servers and _number(recorded, "server_id", 0) != _number(desired, "server_id", 0):
            return _number(recorded, "ts_sec", 0) <= _number(desired, "ts_sec", 0)  # files of other servers do not compare
        (base, number), (desired_base, desired_number) = _file(recorded), _file(desired)
        if base != desired_base:
            self._report_base(base, desired_base)
            return True
        return (number, *_within_file(recorded)) <= (desired_number, *_within_file(desired))

    def _has_gtids_before(self, recorded: Position, desired: Position) -> bool:
        ours, theirs = self._parse(recorded["gtids"]), self._parse(desired["gtids"])
        if ours == theirs:
            if "snapshot" not in recorded and "snapshot" in desired:
                return False
            return _number(recorded, "event", 0) <= _number(desired, "event", 0)
        if isinstance(ours, GtidSet):
            assert isinstance(theirs, GtidSet)
            return ours.is_subset(theirs)
        assert isinstance(theirs, frozenset)
        last: dict[int, int] = {}
        for gtid in theirs:
            last[gtid.domain] = max(gtid.sequence, last.get(gtid.domain, -1))
        return all(gtid.sequence <= last.get(gtid.domain, -1) for gtid in ours)

    def _parse(self, text: str) -> _AnySet:
        if not self._is_mariadb:
            gtids = GtidSet.parse(text)
            if self._is_included is None:
                return gtids
            return gtids.keep_sources([uuid for uuid in gtids.sources if self._is_included(uuid)])
        found = frozenset(MariaDbGtid.parse(part) for part in text.split(",") if part.strip())
        if self._is_included is None:
            return found
        return frozenset(gtid for gtid in found if self._is_included(f"{gtid.domain}-{gtid.server_id}"))

    def _report_base(self, base: str, desired_base: str) -> None:
        if (base, desired_base) not in self._reported:
            self._reported.add((base, desired_base))
            log.warning(
                "binary log files of the schema history are named %s, and now %s: positions do not compare, so DDL of the former "
                "is applied. This is expected after the server was restored or log_bin_basename was changed",
                base,
                desired_base,
            )


def _number(position: Position, key: str, default: int) -> int:
    value = position.get(key, default)
    try:
        return int(value)
    except (TypeError, ValueError) as e:
        raise DataError(f"position {dict(position)} has {key} {value!r}; expected a number") from e


def _within_file(position: Position) -> tuple[int, int, int]:
    return _number(position, "pos", -1), _number(position, "event", 0), _number(position, "row", -1)


def _file(position: Position) -> tuple[str, int]:
    name = position.get("file")
    base, dot, number = name.rpartition(".") if isinstance(name, str) else ("", "", "")
    if not dot or not number.isdigit():
        raise DataError(f"position {dict(position)} has file {name!r}; expected a name like mysql-bin.000003")
    return base, int(number)
