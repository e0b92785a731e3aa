"""The events that the decoder returns. Each has its header; rows, table maps, and GTIDs have modules of their own."""

from __future__ import annotations

import struct
from typing import NamedTuple

from connectors.mysql.binlog.event_types import FLAG_ARTIFICIAL, FLAG_IGNORABLE, event_name

HEADER_LENGTH = 19
_unpack_header = struct.Struct("<IBIIIH").unpack_from


class EventHeader(NamedTuple):
    """``timestamp`` is in seconds since 1970. ``next_position`` is the position after the event in its file, modulo 2**32, and 0
    for artificial events and those inside a compressed transaction."""

    timestamp: int
    type_code: int
    server_id: int
    event_size: int
    next_position: int
    flags: int

    @property
    def name(self) -> str:
        return event_name(self.type_code)

    @property
    def position(self) -> int:
        """The event's own position in its file; 0 if it is in none."""
        return max(self.next_position - self.event_size, 0)

    @property
    def is_artificial(self) -> bool:
        """Whether the server created the event for this client; it is in no file."""
        return bool(self.flags & FLAG_ARTIFICIAL)

    @property
    def is_ignorable(self) -> bool:
        return bool(self.flags & FLAG_IGNORABLE)


def read_header(data: bytes | memoryview, at: int) -> EventHeader:
    """Reads the header common to all events. Raises struct.error if the data is too short."""
    return tuple.__new__(EventHeader, _unpack_header(data, at))


class FormatDescription(NamedTuple):
    """The first event of a file. ``checksum_algorithm``: 0 none, 1 CRC32, None for servers that have no checksums."""

    header: EventHeader
    binlog_version: int
    server_version: str
    created: int
    header_length: int
    post_header_lengths: bytes
    checksum_algorithm: int | None

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.server_version.lower()

    def post_header_length(self, type_code: int) -> int | None:
        """Returns the length of the fixed part of an event type; None if the server does not know it."""
        return self.post_header_lengths[type_code - 1] if 0 < type_code <= len(self.post_header_lengths) else None


class Rotate(NamedTuple):
    """The next event is in ``file`` at ``position``. An artificial one begins each stream."""

    header: EventHeader
    file: str
    position: int


class Query(NamedTuple):
    """A statement: BEGIN, COMMIT, DDL, or, with binlog_format=STATEMENT, a change of rows.

    ``sql`` is in the charset of ``charset_client``. Variables that the statement does not have are None. ``charset_*`` are
    numbers of collations. ``ddl_xid`` is the ID of the transaction of an atomic DDL statement. ``microseconds`` belong to the
    header's timestamp. ``updated_databases`` is None if there are too many to be listed. ``gtid_flags_extra`` and
    ``start_alter_sequence`` are MariaDB's, for an ALTER in two phases.
    """

    header: EventHeader
    schema: str
    sql: bytes
    thread_id: int
    execution_time_s: int
    error_code: int
    is_compressed: bool
    sql_mode: int | None
    charset_client: int | None
    collation_connection: int | None
    collation_server: int | None
    collation_database: int | None
    time_zone: str | None
    invoker: tuple[str, str] | None
    microseconds: int | None
    ddl_xid: int | None
    explicit_defaults_for_timestamp: bool | None
    default_collation_for_utf8mb4: int | None
    updated_databases: tuple[str, ...] | None
    gtid_flags_extra: int | None
    start_alter_sequence: int | None


class RowsQuery(NamedTuple):
    """The statement that caused the next rows events: ROWS_QUERY of MySQL, ANNOTATE_ROWS of MariaDB."""

    header: EventHeader
    sql: bytes


class Xid(NamedTuple):
    """Commits a transaction."""

    header: EventHeader
    xid: int


class XaPrepare(NamedTuple):
    """Ends the first phase of an XA transaction. ``is_one_phase``: it is also committed."""

    header: EventHeader
    is_one_phase: bool
    format_id: int
    gtrid: bytes
    bqual: bytes


class HeartbeatEvent(NamedTuple):
    """The server has sent everything up to ``position`` of ``file``. It is in no file."""

    header: EventHeader
    file: str
    position: int


class Incident(NamedTuple):
    """The log lacks changes, for example after a failed write. A reader must not continue as if nothing happened."""

    header: EventHeader
    number: int
    message: str


class BinlogCheckpoint(NamedTuple):
    """MariaDB no longer needs files before this one for crash recovery."""

    header: EventHeader
    file: str


class StatementContext(NamedTuple):
    """INTVAR, RAND, or USER_VAR: context of a change that is logged as a statement. Not decoded."""

    header: EventHeader


class LoadedData(NamedTuple):
    """An event of LOAD DATA that is logged as a statement. Not decoded: its rows are not in the log."""

    header: EventHeader


class OtherEvent(NamedTuple):
    """An event that needs no decoding (STOP, IGNORABLE, TRANSACTION_CONTEXT, VIEW_CHANGE), or an unknown one.

    ``is_known`` is False for the latter; only if ``header.is_ignorable`` may it be skipped.
    """

    header: EventHeader
    is_known: bool
