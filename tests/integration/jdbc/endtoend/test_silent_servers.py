"""A server that accepts connections but stays silent blocks nothing."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.errors import DatabaseUnreachableError
from connectors.jdbc.sql import Sql
from connectors.jdbc.urls.connection_url import parse_connection_url
from sluice.embedded.mariadb import EmbeddedMariaDB


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of one."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.mark.parametrize("kind", ["postgresql", "mariadb", pytest.param("mysql", marks=pytest.mark.long)])
def test_connecting_to_a_silent_server_times_out(kind: str, silent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connectors.jdbc.connection.connect_timeout.CONNECT_TIMEOUT_S", 1)
    # PyMySQL has a limit of its own for the TCP connection, which is taken here.
    limit = "" if kind == "postgresql" else "?connectTimeout=1000"
    target = parse_connection_url(f"jdbc:{kind}://127.0.0.1:{silent}/shop{limit}", "shop", "hidden", {})
    with pytest.raises(
        DatabaseUnreachableError, match=f"{kind}://127.0.0.1:{silent}/shop cannot be reached .*(timeout|timed out)"
    ):
        Database(ConnectionSettings(target, attempts=1)).session()


def test_the_connect_timeout_does_not_apply_to_statements(mariadb: EmbeddedMariaDB) -> None:
    url = f"jdbc:mysql://{mariadb.host}:{mariadb.port}/mysql?connectTimeout=2000"
    database = Database(ConnectionSettings(parse_connection_url(url, mariadb.user, mariadb.password, {}), attempts=1))
    session = database.session()
    assert session.query(Sql("SELECT SLEEP(3)"), "sleeping") == [(0,)]
    session.close()
    database.close()
