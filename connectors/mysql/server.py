"""Reads the state of the server: its kind, its binary log, and what its log still has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import PositionLostError
from connectors.mysql.binlog import GtidSet, MariaDbGtid, MariaDbGtidPosition
from connectors.mysql.connection import MySqlConnection
from connectors.mysql.errors import MySqlServerError, ServerReplacedError
from connectors.mysql.offsets import BinlogPosition, Gtids, StoredBinlogOffset, keep_sources, parse_gtids

_VARIABLES: Final = (
    "server_id", "server_uuid", "server_uid", "log_bin", "binlog_format", "binlog_row_image", "binlog_row_metadata",
    "binlog_row_value_options", "binlog_transaction_compression", "log_bin_compress", "binlog_rows_query_log_events",
    "binlog_annotate_row_events", "binlog_expire_logs_seconds", "expire_logs_days", "gtid_mode", "gtid_strict_mode",
    "gtid_domain_id",
    "lower_case_table_names", "character_set_server", "collation_server", "max_allowed_packet", "log_slave_updates",
    "log_replica_updates", "read_only", "time_zone", "system_time_zone", "hostname",
)  # fmt: skip
_SYNTAX_ERRORS: Final = (1064, 1149)
_NO_PRIVILEGE_FOR_REPLICAS: Final = (ConfigError, MySqlServerError)


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The server. ``variables`` are those of :data:`_VARIABLES` that it has, as text."""

    version_text: str
    version: tuple[int, int, int]
    is_mariadb: bool
    variables: Mapping[str, str]

    def is_on(self, name: str) -> bool:
        return self.variables.get(name, "").upper() in ("ON", "1", "YES", "TRUE")

    @property
    def server_id(self) -> int:
        return int(self.variables.get("server_id") or 0)

    @property
    def uuid(self) -> str | None:
        """Identifies the server: MySQL's server_uuid, or MariaDB's server_uid; None if it has neither."""
        return self.variables.get("server_uuid") or self.variables.get("server_uid") or None

    @property
    def uses_gtids(self) -> bool:
        """Whether transactions have GTIDs. MariaDB's always do."""
        return self.is_mariadb or self.variables.get("gtid_mode", "OFF").upper() == "ON"

    @property
    def has_full_metadata(self) -> bool:
        """Whether the log describes columns by name (binlog_row_metadata=FULL)."""
        return self.variables.get("binlog_row_metadata", "").upper() == "FULL"

    @property
    def row_image(self) -> str:
        return self.variables.get("binlog_row_image", "FULL").upper()

    @property
    def lower_case_table_names(self) -> int:
        """0: names have their case; 1: they are stored in lower case; 2: they are compared in lower case."""
        return int(self.variables.get("lower_case_table_names") or 0)

    @property
    def expires_s(self) -> int:
        """How long the server keeps files of the log, in seconds; 0 for ever."""
        seconds = float(self.variables.get("binlog_expire_logs_seconds") or 0)
        return int(seconds or float(self.variables.get("expire_logs_days") or 0) * 86_400)


def read_server(connection: MySqlConnection) -> ServerInfo:
    """Reads the server's version and variables."""
    names = ", ".join(f"'{name}'" for name in _VARIABLES)
    rows = connection.query(f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({names})")
    variables = {str(name).lower(): value or "" for name, value in rows}
    return ServerInfo(connection.version_text, connection.version, connection.is_mariadb, variables)


def check_server(connection: MySqlConnection, server: ServerInfo) -> None:
    """Raises ConfigError if the server does not log rows, or is of the other kind than the connector class."""
    where = connection.address.where
    if server.is_mariadb != (connection.address.product == "MariaDB"):
        name = "mariadb.MariaDbConnector" if server.is_mariadb else "mysql.MySqlConnector"
        raise ConfigError(
            f"{where} is {server.version_text}: use connector.class=io.debezium.connector.{name}", key="connector.class"
        )
    if not server.is_on("log_bin"):
        raise ConfigError(
            f"{where} writes no binary log: set log_bin, binlog_format=ROW, and server_id, and restart it",
            key="database.hostname",
        )
    if (format_ := server.variables.get("binlog_format", "ROW").upper()) != "ROW":
        raise ConfigError(
            f"{where} has binlog_format={format_}: set it to ROW, since the log of statements has no rows; sessions that are "
            "open keep the old value until they reconnect",
            key="database.hostname",
        )
    if server.row_image == "MINIMAL":
        raise ConfigError(
            f"{where} has binlog_row_image=MINIMAL: set it to FULL, since updates lack the columns that did not change",
            key="database.hostname",
        )
    if not server.server_id:
        raise ConfigError(f"{where} has server_id=0: set it to 1 or more, so that replicas may read", key="database.hostname")


@dataclass(frozen=True, slots=True)
class BinlogFile:
    """A file of the log."""

    name: str
    size_bytes: int


def read_files(connection: MySqlConnection) -> list[BinlogFile]:
    """Reads the list of files, the oldest first."""
    return [BinlogFile(str(row[0]), int(row[1] or 0)) for row in connection.query("SHOW BINARY LOGS")]


def read_position(connection: MySqlConnection, server: ServerInfo) -> BinlogPosition:
    """Reads the end of the log, with the executed GTIDs. Raises ConfigError if the server writes no log.

    On MariaDB, the GTIDs are those of exactly this position, also without a lock. The server may read a whole file for them.
    """
    file, position, text = _read_status(connection, server)
    if server.is_mariadb:
        text = connection.query("SELECT BINLOG_GTID_POS(%s, %s)", (file, position))[0][0]
    gtids = parse_gtids(text) if server.uses_gtids else None
    return BinlogPosition(file, position, None if gtids is None else str(gtids))


def read_end(connection: MySqlConnection, server: ServerInfo) -> BinlogPosition:
    """Reads the end of the log with GTIDs that have at least everything before it. Raises ConfigError as :func:`read_position`.

    It costs no more than two queries, whatever the size of the log.
    """
    file, position, _ = _read_status(connection, server)
    return BinlogPosition(file, position, str(read_executed(connection, server)) or None)


def _read_status(connection: MySqlConnection, server: ServerInfo) -> tuple[str, int, str | None]:
    """Returns the current file, its end, and the executed GTIDs of MySQL."""
    newer = not server.is_mariadb and server.version >= (8, 2, 0)
    rows = connection.query("SHOW BINARY LOG STATUS" if newer else "SHOW MASTER STATUS")
    if not rows or not rows[0][0]:
        raise ConfigError(f"{connection.address.where} writes no binary log: set log_bin", key="database.hostname")
    return str(rows[0][0]), int(rows[0][1] or 4), rows[0][4] if len(rows[0]) > 4 else None


def read_executed(connection: MySqlConnection, server: ServerInfo) -> Gtids:
    """Reads the GTIDs of all transactions that the server has executed; empty without GTIDs."""
    if server.is_mariadb:
        # A failover replica without log_slave_updates has not all of them in its log.
        return MariaDbGtidPosition.parse(connection.query("SELECT @@GLOBAL.gtid_binlog_pos")[0][0] or "")
    return _read_executed_set(connection, server)


def _read_executed_set(connection: MySqlConnection, server: ServerInfo) -> GtidSet:
    if server.is_mariadb or not server.uses_gtids:
        return GtidSet()
    return GtidSet.parse(connection.query("SELECT @@GLOBAL.gtid_executed")[0][0] or "")


def read_purged(connection: MySqlConnection, server: ServerInfo) -> GtidSet:
    """Reads the GTIDs of MySQL that are no longer in the log. MariaDB reports a purged position only when the stream begins."""
    if server.is_mariadb or not server.uses_gtids:
        return GtidSet()
    return GtidSet.parse(connection.query("SELECT @@GLOBAL.gtid_purged")[0][0] or "")


def read_start_gtids(
    connection: MySqlConnection, server: ServerInfo, stored: Gtids, reads_source: Callable[[str], bool] | None
) -> Gtids:
    """Returns the GTIDs with which the stream begins: those stored, and what the server has purged of sources that were never
    read. The stream has everything else. ``reads_source`` is None if all sources are read.

    Those of sources that are not read must stay: the statements of a transaction that is sent again would change the structure
    of tables again. Those that the server lacks do not, so that it may be another one.
    """
    if isinstance(stored, MariaDbGtidPosition):
        return stored if reads_source is None else _without_missing(connection, stored, reads_source)
    read = stored if reads_source is None else keep_sources(stored, reads_source)
    assert isinstance(read, GtidSet)
    kept = read if reads_source is None else read.union(stored.intersection(_read_executed_set(connection, server)))
    known = set(read.sources)
    return kept.union(GtidSet(part for part in read_purged(connection, server) if part[0] not in known))


def _without_missing(
    connection: MySqlConnection, stored: MariaDbGtidPosition, reads_source: Callable[[str], bool]
) -> MariaDbGtidPosition:
    """Removes GTIDs that the server lacks, of sources that are not read. MariaDB refuses them, at the latest when it logs a
    transaction of their domain."""
    text = connection.query("SELECT @@GLOBAL.gtid_binlog_state")[0][0] or ""
    state = [MariaDbGtid.parse(part) for part in text.split(",") if part.strip()]
    last = {(gtid.domain, gtid.server_id): gtid.sequence for gtid in state}
    return MariaDbGtidPosition(
        gtid
        for gtid in stored
        if reads_source(f"{gtid.domain}-{gtid.server_id}") or gtid.sequence <= last.get((gtid.domain, gtid.server_id), 0)
    )


def resume_position(stored: StoredBinlogOffset, server: ServerInfo) -> BinlogPosition:
    """Returns where to continue on this server. On another server than that of the offset, a transaction in progress starts over,
    because its events may be divided differently: rows are repeated rather than lost (promise 5)."""
    if stored.server_uuid is not None and server.uuid is not None and stored.server_uuid != server.uuid:
        return stored.position.at_transaction_start()
    return stored.position


def find_lost_position(
    connection: MySqlConnection,
    server: ServerInfo,
    stored: BinlogPosition,
    *,
    by_gtid: bool,
    server_uuid: str | None = None,
    reads_source: Callable[[str], bool] | None = None,
) -> PositionLostError | None:
    """Finds out whether the server still has a stored position; returns the error if it does not.

    With ``by_gtid``, GTIDs decide, so the server may be another one; those of sources that are not read do not count.
    ``server_uuid`` is the server of a position without GTIDs.
    """
    where = connection.address.where
    gtids = parse_gtids(stored.gtids) if by_gtid else None
    if isinstance(gtids, GtidSet) and reads_source is not None:
        gtids = keep_sources(gtids, reads_source)
    if isinstance(gtids, GtidSet):
        missing = gtids.subtract(_read_executed_set(connection, server))
        if missing:
            return ServerReplacedError(
                f"{where} has not executed transactions that the connector has read, {str(missing)[:200]}: it was replaced or "
                "restored, or it is a replica that lags. Connect to a server that has them, or take a new snapshot "
                "(snapshot.mode=when_needed)"
            )
        known = set(gtids.sources)
        lost = GtidSet(part for part in read_purged(connection, server) if part[0] in known).subtract(gtids)
        return _purged_error(where, str(lost)) if lost else None
    if isinstance(gtids, MariaDbGtidPosition):
        return None  # the server reports it when the stream begins
    if server_uuid is not None and server.uuid is not None and server_uuid != server.uuid:
        return ServerReplacedError(
            f"{where} is another server ({server.uuid}) than that of the stored position ({server_uuid}), where {stored.file} "
            "has other changes. Enable GTIDs for failovers, or take a new snapshot (snapshot.mode=when_needed)"
        )
    sizes = {file.name: file.size_bytes for file in read_files(connection)}
    if stored.file not in sizes:
        return _purged_error(where, f"{stored.file}; it has {', '.join(sizes)[:200] or 'no files'}")
    if stored.position > sizes[stored.file]:
        return ServerReplacedError(
            f"{stored.file} of {where} has {sizes[stored.file]} bytes, fewer than the stored position {stored.position}: the "
            "server was replaced or restored, or lost transactions. Take a new snapshot (snapshot.mode=when_needed)"
        )
    return None


def _purged_error(where: str, what: str) -> PositionLostError:
    return PositionLostError(
        f"{where} no longer has {what}: it was removed from the binary log before the connector read it. Take a new snapshot "
        "(snapshot.mode=when_needed), and keep logs longer (binlog_expire_logs_seconds, expire_logs_days)"
    )


def read_replication_source(connection: MySqlConnection, server: ServerInfo) -> str | None:
    """Returns the server of which this one is a replica, as ``host:port``; None if it is none, or the user may not know."""
    if server.is_mariadb:
        statement = "SHOW ALL SLAVES STATUS"
    else:
        statement = "SHOW REPLICA STATUS" if server.version >= (8, 0, 22) else "SHOW SLAVE STATUS"
    try:
        rows, names = _query_with_names(connection, statement)
    except _NO_PRIVILEGE_FOR_REPLICAS:
        return None
    if not rows:
        return None
    found = {name.lower().replace("source_", "master_"): value for name, value in zip(names, rows[0], strict=True)}
    return f"{found.get('master_host')}:{found.get('master_port')}"


def describe_replicas(connection: MySqlConnection, server_id: int) -> str:
    """Describes the replicas with a server ID, as the server lists them; empty if there are none, or the user may not know."""
    for statement in ("SHOW REPLICAS", "SHOW SLAVE HOSTS"):
        try:
            rows, names = _query_with_names(connection, statement)
        except MySqlServerError as e:
            if e.number in _SYNTAX_ERRORS:
                continue
            return ""
        except ConnectError:
            return ""
        column = {name.lower(): number for number, name in enumerate(names)}
        return ", ".join(
            f"server ID {row[0]} on host {row[column.get('host', 1)] or 'unknown'}" for row in rows if row[0] == str(server_id)
        )
    return ""


def _query_with_names(connection: MySqlConnection, sql: str) -> tuple[list[tuple[str | None, ...]], list[str]]:
    rows = connection.query(sql)
    fields = getattr(connection.driver._result, "fields", None) or ()
    return rows, [field.name for field in fields]
