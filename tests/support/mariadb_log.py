"""Reads the binary log of the embedded MariaDB as a replica does."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from connectors.mysql.binlog import BinlogDecoder, Event
from sluice.embedded.mariadb import EmbeddedMariaDB

_DUMP, _NON_BLOCKING = 0x12, 1


class BinaryLog:
    """Reads what the server logs from now on, as a replica does."""

    def __init__(self, server: EmbeddedMariaDB, checksum: str) -> None:
        self._server, self._checksum = server, checksum
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SHOW MASTER STATUS")
            self._file, self._position, *_ = cursor.fetchone()
        self.raw: list[bytes] = []

    def events(self) -> Iterator[Event]:
        decoder = BinlogDecoder(master_checksum=self._checksum)
        with self._server.connect() as connection:
            with connection.cursor() as cursor:
                cursor.execute("SET @master_binlog_checksum = %s, @mariadb_slave_capability = 4", (self._checksum,))
            request = struct.pack("<IHI", self._position, _NON_BLOCKING, 4242) + self._file.encode()
            driver: Any = connection  # PyMySQL has no public calls for the commands of a replica
            driver._execute_command(_DUMP, request)
            while True:
                packet = driver._read_packet().get_all_data()
                if packet[0] == 0xFE:
                    break
                self.raw.append(packet)
                yield decoder.decode(packet, 1)
