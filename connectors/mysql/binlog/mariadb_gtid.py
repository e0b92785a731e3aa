"""MariaDB's global transaction IDs, ``domain-server-sequence``, and positions made of them.

Within a domain, all transactions have one order, so one GTID per domain is a position. Sequences of a domain ascend, whichever
server wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from connect.errors import DataError

_GTID = re.compile(r"([0-9]+)-([0-9]+)-([0-9]+)")


class MariaDbGtid(NamedTuple):
    domain: int
    server_id: int
    sequence: int

    @classmethod
    def parse(cls, text: str) -> MariaDbGtid:
        """Parses ``domain-server-sequence``. Raises DataError."""
        match = _GTID.fullmatch(text.strip())
        if match is None:
            raise DataError(f"invalid MariaDB GTID {text!r}; expected <domain>-<server>-<sequence>, like 0-1-100")
        gtid = cls(int(match[1]), int(match[2]), int(match[3]))
        if gtid.domain >= 1 << 32 or gtid.server_id >= 1 << 32 or gtid.sequence >= 1 << 64:
            raise DataError(f"MariaDB GTID {text!r} is out of range: domain and server have 32 bits, the sequence has 64")
        return gtid

    def __str__(self) -> str:
        return f"{self.domain}-{self.server_id}-{self.sequence}"


class MariaDbGtidPosition:
    """A mutable position: the last GTID of each domain, like gtid_slave_pos."""

    __slots__ = ("_last",)

    def __init__(self, gtids: Iterable[MariaDbGtid] = ()) -> None:
        """Creates a position from GTIDs in the order of their execution; of a domain, the last one counts."""
        self._last: dict[int, MariaDbGtid] = {}
        for gtid in gtids:
            self.advance(gtid)

    @classmethod
    def parse(cls, text: str) -> MariaDbGtidPosition:
        """Parses a list like ``0-1-100,1-2-7``. Raises DataError; like the server, also if a domain occurs twice."""
        result = cls()
        for part in text.split(","):
            if part.strip():
                gtid = MariaDbGtid.parse(part)
                if gtid.domain in result._last:
                    raise DataError(f"MariaDB GTID position {text!r} has domain {gtid.domain} twice")
                result.advance(gtid)
        return result

    @classmethod
    def latest(cls, gtids: Iterable[MariaDbGtid]) -> MariaDbGtidPosition:
        """Returns the position after all of these GTIDs, in any order, like those of MARIADB_GTID_LIST or gtid_binlog_state."""
        return cls(sorted(gtids, key=lambda gtid: (gtid.domain, gtid.sequence)))

    def advance(self, gtid: MariaDbGtid) -> None:
        """Sets the position of the GTID's domain to it, even if its sequence is lower: the log's order counts."""
        self._last[gtid.domain] = gtid

    def contains(self, gtid: MariaDbGtid) -> bool:
        """Returns whether a transaction was executed at this position: its domain is as far, or further."""
        last = self._last.get(gtid.domain)
        return last is not None and gtid.sequence <= last.sequence

    def is_subset(self, other: MariaDbGtidPosition) -> bool:
        """Returns whether the other position is at least as far in every domain of this one."""
        return all(other.contains(gtid) for gtid in self._last.values())

    def union(self, other: MariaDbGtidPosition) -> MariaDbGtidPosition:
        """Returns the further position of each domain."""
        return MariaDbGtidPosition.latest([*self, *other])

    def subtract(self, other: MariaDbGtidPosition) -> MariaDbGtidPosition:
        """Returns the domains in which this position is further than the other."""
        return MariaDbGtidPosition(gtid for gtid in self if not other.contains(gtid))

    def copy(self) -> MariaDbGtidPosition:
        return MariaDbGtidPosition(self)

    def __getitem__(self, domain: int) -> MariaDbGtid:
        return self._last[domain]

    def __iter__(self) -> Iterator[MariaDbGtid]:
        """Yields the GTIDs by domain."""
        return iter(sorted(self._last.values()))

    def __len__(self) -> int:
        return len(self._last)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MariaDbGtidPosition) and self._last == other._last

    def __str__(self) -> str:
        return ",".join(map(str, self))

    def __repr__(self) -> str:
        return f"MariaDbGtidPosition({str(self)!r})"
