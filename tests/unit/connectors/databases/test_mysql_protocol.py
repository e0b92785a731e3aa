from __future__ import annotations

import pymysql
import pytest

from connectors.databases.mysql.protocol import PacketReader


class BrokenDriver:
    """A connection whose file fails to read."""

    def __init__(self, error: Exception, *, is_open: bool) -> None:
        self._error, self.open, self._rfile = error, is_open, self

    def read1(self, most: int) -> bytes:
        raise self._error

    def _force_close(self) -> None:
        self.open = False


@pytest.mark.parametrize("error", [ValueError("I/O operation on closed file"), AttributeError("recv_into")])
def test_only_a_closed_file_is_a_lost_connection(error: Exception) -> None:
    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        PacketReader(BrokenDriver(error, is_open=False)).skip_result()
    driver = BrokenDriver(error, is_open=True)
    with pytest.raises(type(error)):
        PacketReader(driver).skip_result()
    assert driver.open


def test_an_error_of_the_socket_is_a_lost_connection() -> None:
    driver = BrokenDriver(ConnectionResetError(), is_open=True)
    with pytest.raises(pymysql.err.OperationalError, match="Lost connection"):
        PacketReader(driver).skip_result()
    assert not driver.open
