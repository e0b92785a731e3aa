"""TLS to a real MariaDB, and authentication by its plugins."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.config.parsing import Password
from connect.errors import ConfigError
from connect.tls import Store
from connectors.cdc.errors import ConnectionLostError
from connectors.cdc.interrupt import Interrupt
from connectors.mysql.binlog_client import BinlogClient, BinlogClientSettings, FilePosition
from connectors.mysql.config import KEY_STORE, TRUST_STORE, MySqlAddress, TlsSettings
from connectors.mysql.connection import MySqlConnection
from sluice.embedded.mariadb import EmbeddedMariaDB
from tests.integration.rest.certificates import Authority


def read_on(client: BinlogClient) -> None:
    """Reads until an error ends the stream."""
    while True:
        client.read(60.0)


@dataclass(frozen=True)
class TlsServer:
    server: EmbeddedMariaDB
    trust: str
    other_trust: str
    client: str

    def address(self, mode: str, *, host: str | None = None, user: str | None = None, **stores: str) -> MySqlAddress:
        tls = TlsSettings(
            mode,
            Store(KEY_STORE, stores.get("key"), "changeit", key_is_location=True),
            Store(TRUST_STORE, stores.get("trust"), key_is_location=True),
        )
        password = Password(self.server.password if user is None else "pässword")
        return MySqlAddress(
            host or self.server.host, self.server.port, user or self.server.user, password, tls, 60.0, product="MariaDB"
        )


@pytest.fixture(scope="module")
def tls_server(tmp_path_factory: pytest.TempPathFactory, services_dir: Path) -> Iterator[TlsServer]:
    # Not in pytest's directory: the server may run as another user, who must reach its files.
    folder = services_dir / "mariadb-tls-files"
    folder.mkdir(mode=0o755)
    authority = Authority()
    for name, content in (
        ("authority.pem", authority.pem()),
        ("other.pem", Authority("other").pem()),
        ("key.pem", (identity := authority.sign("127.0.0.1")).key_pem()),
        ("certificate.pem", identity.chain_pem()),
    ):
        (folder / name).write_text(content)
    os.chmod(services_dir, 0o755)
    client = authority.sign("client").write_pkcs12(folder / "client.p12", "changeit")
    settings = {
        "ssl": "1",
        "ssl_ca": str(folder / "authority.pem"),
        "ssl_key": str(folder / "key.pem"),
        "ssl_cert": str(folder / "certificate.pem"),
    }
    server = EmbeddedMariaDB(services_dir / "mariadb-tls", dies_with_parent=True, settings=settings)
    server.start()
    yield TlsServer(server, str(folder / "authority.pem"), str(folder / "other.pem"), client)
    server.remove()


@pytest.fixture
def interrupt() -> Iterator[Interrupt]:
    interrupt = Interrupt()
    yield interrupt
    interrupt.close()


@pytest.mark.parametrize("mode", ["disabled", "preferred", "required", "verify_ca", "verify_identity"])
def test_each_mode_connects(tls_server: TlsServer, interrupt: Interrupt, mode: str) -> None:
    connection = MySqlConnection.open(tls_server.address(mode, trust=tls_server.trust), interrupt)
    encrypted = connection.query("SHOW STATUS LIKE 'Ssl_cipher'")[0][1]
    assert bool(encrypted) is (mode != "disabled")
    assert (connection.socket.tls_version is not None) is (mode != "disabled")
    # More than a TLS record, both ways.
    text = "x" * 100_000
    assert connection.query("SELECT %s", (text,)) == [(text,)]
    connection.close()


def test_untrusted_certificates_are_rejected(tls_server: TlsServer, interrupt: Interrupt) -> None:
    for address in (
        tls_server.address("verify_ca", trust=tls_server.other_trust),
        tls_server.address("verify_ca"),
        tls_server.address("verify_identity", trust=tls_server.trust, host="127.1"),
    ):
        with pytest.raises(ConfigError, match=r"no TLS connection.*database\.ssl\.truststore.*certificate verify failed"):
            MySqlConnection.open(address, interrupt)


def test_a_trust_store_replaces_the_certificates_of_the_system(
    tls_server: TlsServer, interrupt: Interrupt, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", tls_server.trust)
    MySqlConnection.open(tls_server.address("verify_ca"), interrupt).close()
    with pytest.raises(ConfigError, match="certificate verify failed"):
        MySqlConnection.open(tls_server.address("verify_ca", trust=tls_server.other_trust), interrupt)


def test_users_may_need_a_certificate(tls_server: TlsServer, interrupt: Interrupt) -> None:
    admin = MySqlConnection.open(tls_server.address("required"), interrupt)
    admin.execute("CREATE OR REPLACE USER certified IDENTIFIED BY 'pässword' REQUIRE X509")
    with pytest.raises(ConfigError, match="rejected the password"):
        MySqlConnection.open(tls_server.address("required", user="certified"), interrupt)
    connection = MySqlConnection.open(tls_server.address("required", user="certified", key=tls_server.client), interrupt)
    assert connection.query("SELECT 1") == [("1",)]
    for one in (admin, connection):
        one.close()


def test_an_encrypted_connection_that_the_server_ends_is_lost(tls_server: TlsServer, interrupt: Interrupt) -> None:
    admin, idle, busy = (MySqlConnection.open(tls_server.address("required"), interrupt) for _ in range(3))
    client = BinlogClient.open(
        MySqlConnection.open(tls_server.address("required"), interrupt), FilePosition(""), BinlogClientSettings(4715)
    )
    client.read(60.0)
    for number in (idle.thread_id, busy.thread_id, client.thread_id):
        admin.execute(f"KILL {number}")
    with pytest.raises(ConnectionLostError):
        idle.wait_idle(60.0)
    with pytest.raises(ConnectionLostError):
        busy.query("SELECT 1")
    with pytest.raises(ConnectionLostError):
        read_on(client)
    admin.close()


def test_the_binary_log_is_read_over_tls(tls_server: TlsServer, interrupt: Interrupt) -> None:
    connection = MySqlConnection.open(tls_server.address("required"), interrupt)
    connection.execute("CREATE OR REPLACE TABLE sluice.large (v LONGTEXT)")
    connection.execute("INSERT INTO sluice.large VALUES (REPEAT('x', 3000000))")
    client = BinlogClient.open(connection, FilePosition(""), BinlogClientSettings(4713, ends_at_end=True))
    decoder, sizes = client.decoder(), [0]
    while not client.ended:
        sizes += [decoder.decode(data).header.event_size for data in client.read(60.0)]
    assert max(sizes) > 3_000_000
