"""Databases at addresses that the worker denies are refused before a connection is attempted, and not retried."""

from __future__ import annotations

import socket

import pytest

from connect import ConfigError
from connect.errors import ConnectError
from connectors.cdc.interrupt import Interrupt
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.urls.connection_url import parse_connection_url
from connectors.postgres.config import Address
from connectors.postgres.connection import Connection

METADATA = "169.254.169.254"


@pytest.mark.parametrize(
    "url",
    [
        f"jdbc:postgresql://{METADATA}:80/x",
        f"jdbc:postgresql://localhost/x?hostaddr={METADATA}",
        f"jdbc:postgresql://localhost,{METADATA}/x",
        f"jdbc:mysql://{METADATA}:80/x",
        f"jdbc:mariadb://{METADATA}:80/x?socketTimeout=500",
    ],
)
def test_jdbc_urls(url: str) -> None:
    database = Database(ConnectionSettings(parse_connection_url(url, "u", "p", {}), attempts=3))
    with pytest.raises(ConfigError, match=f"Connections to .*{METADATA}.* are not allowed on this worker"):
        database.session()


def test_names_are_resolved_anew_for_each_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(ConnectionSettings(parse_connection_url("jdbc:postgresql://moving/x", "u", "p", {}), attempts=1))
    for address in ("127.0.0.1", "127.0.0.2", METADATA):  # no real name server changes its mind on demand
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, found=found, **__: found)
        with pytest.raises(ConnectError, match=address.replace(".", r"\.")):
            database.session()


def test_postgresql_source() -> None:
    interrupt = Interrupt()
    try:
        with pytest.raises(ConfigError, match="not allowed on this worker") as caught:
            Connection.open(Address(METADATA, 80, "u", None, "d"), interrupt)
        assert caught.value.key == "database.hostname"
    finally:
        interrupt.close()
