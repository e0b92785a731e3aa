"""Passwords, tokens, and TLS with a registry behind an authenticating proxy."""

from __future__ import annotations

import base64
import datetime as dt
import http.client
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat, pkcs12
from cryptography.x509.oid import NameOID

from connect.data.schema import Schema
from connect.errors import ConfigError, RetriableError
from connectors.registry.avro.converter import AvroConverter
from tests.support.registry import EmbeddedRegistry
from tests.support.waiting import WAIT_S

SECRET = "open:se:same"
BASIC = "Basic " + base64.b64encode(SECRET.encode()).decode()


class _AuthenticatingProxy(ThreadingHTTPServer):
    """Forwards requests with the right Authorization header to the registry."""

    daemon_threads = True

    def __init__(self, registry: EmbeddedRegistry, expected: str | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.registry = registry
        self.expected = expected


class _Handler(BaseHTTPRequestHandler):
    server: _AuthenticatingProxy
    protocol_version = "HTTP/1.1"

    def _forward(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.expected is not None and self.headers.get("Authorization") != self.server.expected:
            self._answer(401, b'{"error_code":401,"message":"Who are you?"}')
            return
        inner = http.client.HTTPConnection("127.0.0.1", self.server.registry.port, timeout=WAIT_S)
        inner.request(self.command, self.path, body, {"Content-Type": self.headers.get("Content-Type", "application/json")})
        answer = inner.getresponse()
        self._answer(answer.status, answer.read())
        inner.close()

    do_GET = do_POST = _forward

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing."""


@pytest.fixture
def proxy(registry: EmbeddedRegistry) -> Iterator[_AuthenticatingProxy]:
    server = _AuthenticatingProxy(registry, BASIC)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), name="registry-proxy")
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def _write(url: str, **configs: str) -> bytes | None:
    converter = AvroConverter()
    converter.configure({"schema.registry.url": url, "max.retries": "0", **configs}, False)
    try:
        return converter.from_connect_data("secured", Schema.INT32, 1)
    finally:
        converter.close()


def _address(proxy: _AuthenticatingProxy, user_info: str = "", scheme: str = "http") -> str:
    return f"{scheme}://{user_info}127.0.0.1:{proxy.server_port}/apis/ccompat/v7"


def test_every_credentials_source_authenticates(proxy: _AuthenticatingProxy) -> None:
    source = "basic.auth.credentials.source"
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="open" password="se:same";'
    assert _write(_address(proxy, "open:se%3Asame@"))
    assert _write(_address(proxy), **{source: "USER_INFO", "basic.auth.user.info": SECRET})
    assert _write(_address(proxy), **{source: "USER_INFO", "schema.registry.basic.auth.user.info": SECRET})
    assert _write(_address(proxy), **{source: "SASL_INHERIT", "sasl.jaas.config": jaas})


def test_bearer_token_authenticates(proxy: _AuthenticatingProxy) -> None:
    proxy.expected = "Bearer abc123"
    assert _write(_address(proxy), **{"bearer.auth.token": "abc123"})
    with pytest.raises(ConfigError, match="Who are you"):
        _write(_address(proxy), **{"bearer.auth.token": "wrong"})


def test_wrong_password_is_a_config_error_without_the_password(proxy: _AuthenticatingProxy) -> None:
    for url in (_address(proxy, "open:hush@"), _address(proxy)):
        with pytest.raises(ConfigError, match=r"\(HTTP 401\): Who are you\?\. Check basic\.auth\.user\.info") as failed:
            _write(url)
        assert "hush" not in str(failed.value)


def _certificate(folder: Path, name: str) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    """Creates a self-signed certificate for this machine."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (folder / f"{name}.pem").write_bytes(certificate.public_bytes(Encoding.PEM))
    (folder / f"{name}.key").write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return key, certificate


def test_tls_works_with_pem_and_pkcs12_stores_and_rejects_unreadable_ones(proxy: _AuthenticatingProxy, tmp_path: Path) -> None:
    proxy.expected = None
    _, server = _certificate(tmp_path, "server")
    key, client = _certificate(tmp_path, "client")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
    context.load_verify_locations(tmp_path / "client.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    proxy.socket = context.wrap_socket(proxy.socket, server_side=True)
    encryption = BestAvailableEncryption(b"store")
    identity = pkcs12.serialize_key_and_certificates(b"client", key, client, None, encryption)
    (tmp_path / "client.p12").write_bytes(identity)
    trusted = pkcs12.serialize_java_truststore([pkcs12.PKCS12Certificate(server, b"server")], encryption)
    (tmp_path / "trust.p12").write_bytes(trusted)
    both = (tmp_path / "client.key").read_text() + (tmp_path / "client.pem").read_text()
    (tmp_path / "both.pem").write_text(both)
    prefix = "schema.registry.ssl."
    trust_pem = {f"{prefix}truststore.location": str(tmp_path / "server.pem"), f"{prefix}truststore.type": "PEM"}
    identity_pem = {f"{prefix}keystore.location": str(tmp_path / "both.pem"), f"{prefix}keystore.type": "PEM"}
    trust_p12 = {f"{prefix}truststore.location": str(tmp_path / "trust.p12"), f"{prefix}truststore.password": "store"}
    identity_p12 = {f"{prefix}keystore.location": str(tmp_path / "client.p12"), f"{prefix}keystore.password": "store"}
    inline = {
        f"{prefix}truststore.certificates": (tmp_path / "server.pem").read_text(),
        f"{prefix}keystore.certificate.chain": (tmp_path / "client.pem").read_text(),
        f"{prefix}keystore.key": (tmp_path / "client.key").read_text(),
    }
    url = _address(proxy, scheme="https")
    for configs in (trust_pem | identity_pem, trust_p12 | identity_p12, inline):
        assert _write(url, **configs)
    for configs in ({}, identity_pem, trust_pem):  # the server is not trusted, or requires a client certificate
        with pytest.raises(RetriableError, match="does not answer"):
            _write(url, **configs)
    with pytest.raises(ConfigError, match=r"schema\.registry\.ssl\.keystore\.password is not its password") as failed:
        _write(url, **(trust_pem | identity_p12 | {f"{prefix}keystore.password": "hush"}))
    assert "hush" not in str(failed.value)
    (tmp_path / "old.jks").write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    with pytest.raises(ConfigError, match="it begins as a JKS key store and is damaged"):
        _write(url, **{f"{prefix}truststore.location": str(tmp_path / "old.jks")})
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        _write(url, **{f"{prefix}truststore.location": str(tmp_path / "none.pem")})
