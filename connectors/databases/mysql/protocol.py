"""Uses MySQL's protocol beneath PyMySQL to read rows as blocks of packets, without a Python call per packet.

PyMySQL's connection remains the owner: it sends the query, reads the column descriptions, and is idle again after the last row.
:data:`CONNECTION_ATTRIBUTES` lists the internals that this module uses; a test pins them. If the connection has no file to read
blocks from, packets are read one by one through PyMySQL. Errors are PyMySQL's; the caller translates them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, Final

import pymysql
from pymysql.constants import COMMAND, CR, SERVER_STATUS
from pymysql.err import raise_mysql_exception

CONNECTION_ATTRIBUTES: Final = ("_rfile", "_result", "_force_close", "_read_packet", "_execute_command")
"""Attributes of ``pymysql.connections.Connection``; ``_rfile`` may be missing."""
RESULT_ATTRIBUTES: Final = ("fields", "unbuffered_active", "connection", "has_next")
"""Attributes of ``pymysql.connections.MySQLResult``."""

_BLOCK: Final = 1 << 18
_MOST_IN_PACKET: Final = 0xFFFFFF
_DRAINED: Final = 1 << 20
"""Number of unneeded bytes to read before asking the server to cancel the query."""


class PacketReader:
    """Reads the response to a command in blocks. ``data`` from ``at`` on was read but not yet used; ``text`` is ``data`` as
    Latin-1, so that both have the same indexes."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.ended = False
        self.data = b""
        self.text = ""
        self.at = 0
        self._file = getattr(driver, "_rfile", None)

    def _fill(self, missing: int) -> None:
        block = self._read(missing)
        self.data = self.data[self.at :] + block if self.at < len(self.data) else block
        self.text = self.data.decode("latin-1")
        self.at = 0

    def _read(self, missing: int) -> bytes:
        """Reads at least one byte, or all missing bytes if they are many."""
        if self._file is None:
            return self._read_packet()
        try:
            block: bytes = self._file.read(missing) if missing > _BLOCK else self._file.read1(_BLOCK)
        except OSError as e:
            self._lose(e)
        except (ValueError, AttributeError) as e:
            if self.driver.open:
                raise
            self._lose(e)  # another thread dropped the connection, and closed the file
        if not block:
            self._lose(None)
        return block

    def _read_packet(self) -> bytes:
        """For a PyMySQL without ``_rfile``. It joins packets of more than 16 MB, so split them again."""
        payload = self.driver._read_packet().get_all_data()
        parts = [payload[at : at + _MOST_IN_PACKET] for at in range(0, len(payload) + 1, _MOST_IN_PACKET)]
        return b"".join(len(part).to_bytes(4, "little") + part for part in parts)

    def _lose(self, error: BaseException | None) -> Any:
        self.ended = True
        self.driver._force_close()
        reason = f" ({error})" if error else ""
        raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, f"Lost connection to MySQL server during query{reason}") from error

    def _packet(self) -> bytes:
        """Returns the complete payload of the next packet."""
        parts = []
        while True:
            while len(self.data) - self.at < 4:
                self._fill(4 - (len(self.data) - self.at))
            length = int.from_bytes(self.data[self.at : self.at + 3], "little")
            while (missing := 4 + length - (len(self.data) - self.at)) > 0:
                self._fill(missing)
            parts.append(self.data[self.at + 4 : self.at + 4 + length])
            self.at += 4 + length
            if length < _MOST_IN_PACKET:
                return b"".join(parts)

    def skip_result(self) -> int:
        """Skips one result; returns the status flags after it."""
        packet = self._packet()
        if packet[0] == 0:
            at = 1
            for _ in range(2):  # affected rows, insert id
                at = at + {0xFC: 3, 0xFD: 4, 0xFE: 9}.get(packet[at], 1)
            return int.from_bytes(packet[at : at + 2], "little")
        for _ in range(2):  # the columns, then the rows
            while not (packet[0] == 0xFE and len(packet) < 9):
                if packet[0] == 0xFF:
                    raise_mysql_exception(packet)
                packet = self._packet()
            last, packet = packet, b"\0"
        return int.from_bytes(last[3:5], "little")


class ResultStream(PacketReader):
    """Streams the rows of one query. The connection cannot be used for anything else until :attr:`ended`."""

    def __init__(self, driver: Any, sql: bytes | str) -> None:
        """Runs the query. ``fields`` is empty for a statement without rows."""
        driver.query(sql, unbuffered=True)
        super().__init__(driver)
        result = driver._result
        self.ended = not result.unbuffered_active
        self.fields: list[Any] = [] if self.ended else list(result.fields)
        # From here on, this class reads the packets: PyMySQL must not look for the last one.
        result.unbuffered_active = False
        result.has_next = False
        result.connection = None

    @property
    def awaits_large_packet(self) -> bool:
        """Whether :meth:`advance` reads the rest of a packet that is larger than a block: an error then loses a part of it."""
        have = len(self.data) - self.at
        return have >= 4 and int.from_bytes(self.data[self.at : self.at + 3], "little") + 4 - have > _BLOCK

    def advance(self) -> None:
        """Reads more data, or sets ``ended`` at the end of the rows. Call it when ``data`` has no complete row left.

        Raises PyMySQL's error if the server reports one or the connection is lost.
        """
        have = len(self.data) - self.at
        length = int.from_bytes(self.data[self.at : self.at + 3], "little") if have >= 4 else 0
        if have < 4 or have < 4 + length:
            self._fill(4 + length - have if have >= 4 else 4 - have)
            return
        if length == _MOST_IN_PACKET:
            self._join()
            return
        if self._is_last(length):
            self._end(self._packet())

    def _is_last(self, length: int) -> bool:
        """Whether the next packet, which is complete, is an error or the end instead of a row."""
        first = self.data[self.at + 4] if length else 0
        return first == 0xFF or (first == 0xFE and length < 9)

    def _join(self) -> None:
        """Joins the packets of a row of 16 MB or more under a header with a fake length, which decoders ignore."""
        payload = self._packet()
        rest = self.data[self.at :]
        self.data = (_MOST_IN_PACKET - 1).to_bytes(4, "little") + payload + rest
        self.text = self.data.decode("latin-1")
        self.at = 0

    def _end(self, packet: bytes) -> None:
        self.ended = True
        if packet[0] == 0xFF:
            raise_mysql_exception(packet)
        status = int.from_bytes(packet[3:5], "little")
        # After CALL follow the results of the procedure's other statements, and its own status.
        while status & SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS:
            status = self.skip_result()
        self.data, self.text, self.at = b"", "", 0

    def stop(self, kill: Callable[[], None]) -> None:
        """Ends the query before its last row. Afterwards, the connection can be used again, or is closed. Raises nothing.

        ``kill`` cancels the connection's statement over another connection (:func:`kill_query`).
        """
        if self.ended:
            return
        try:
            self._drain(_DRAINED)
            if not self.ended:
                kill()
                self._drain(None)
                # A KILL that arrives after the query ended cancels the next statement: this one.
                with contextlib.suppress(pymysql.err.MySQLError):
                    self.driver.query("DO 0")
        except Exception:
            self.ended = True
            self.driver._force_close()

    def _drain(self, most: int | None) -> None:
        read = 0
        while not self.ended and (most is None or read < most):
            have = len(self.data) - self.at
            length = int.from_bytes(self.data[self.at : self.at + 3], "little") if have >= 4 else 0
            if have < 4 or have < 4 + length:
                self._fill(max(1, 4 + length - have))
            elif length == _MOST_IN_PACKET:
                self._packet()
                read += length
            elif self._is_last(length):
                with contextlib.suppress(pymysql.err.MySQLError):
                    self._end(self._packet())
            else:
                self.at += 4 + length
                read += 4 + length


def execute_all(driver: Any, sql: bytes) -> None:
    """Runs several statements without rows in one request. Stops at the first error; earlier statements take effect."""
    _set_multi_statements(driver, on=True)
    try:
        driver.query(sql)
        if driver._result.has_next:
            driver._result = None  # this function reads the other results
            packets = PacketReader(driver)
            while packets.skip_result() & SERVER_STATUS.SERVER_MORE_RESULTS_EXISTS:
                pass
    finally:
        if driver.open:
            _set_multi_statements(driver, on=False)


def _set_multi_statements(driver: Any, *, on: bool) -> None:
    """Enables multiple statements only for these requests, so that no other request can have more than one."""
    driver._execute_command(COMMAND.COM_SET_OPTION, b"\0\0" if on else b"\1\0")
    driver._read_packet()


def kill_query(side: Any, driver: Any) -> None:
    """Cancels the running statement of a connection over another one, which it closes. Raises PyMySQL's errors."""
    try:
        side.query(f"KILL QUERY {int(driver.thread_id()):d}")
    finally:
        side.close()
