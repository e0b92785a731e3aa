"""Listeners as a worker's properties name them: TLS with real certificates, admin listeners, and what stands before REST."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from connect.errors import ConfigError
from rest.rest_server import RestServer
from rest.server import connection
from rest.server.thread_pools import RequestKind
from tests.integration.rest.certificates import Authority
from tests.support.waiting import WAIT_S, eventually
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig

PLAIN = {
    "bootstrap.servers": "localhost:1",
    "key.converter": "String",
    "value.converter": "String",
    "offset.storage.file.filename": "offsets",
}
AUTHORITY = Authority()
OTHER = Authority("another authority")

Serve = Callable[[dict[str, str]], RestServer]


@pytest.fixture
def herder() -> FakeHerder:
    return FakeHerder()


@pytest.fixture
def serve(herder: FakeHerder) -> Iterator[Serve]:
    """Starts a server for a worker's properties."""
    running = []

    def start(props: dict[str, str]) -> RestServer:
        server = RestServer.from_config(WorkerConfig.standalone({**PLAIN, **props}))
        running.append(server)
        server.start(herder)
        return server

    yield start
    for server in running:
        server.stop(1)


def get(port: int, path: str = "/connectors", tls: ssl.SSLContext | None = None, **headers: str) -> tuple[int, Any]:
    """One request on a connection of its own."""
    if tls is None:
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    else:
        client = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=tls)
    try:
        client.request("GET", path, headers=headers)
        answer = client.getresponse()
        return answer.status, json.loads(answer.read() or b"null")
    finally:
        client.close()


def serial_at(port: int, tls: ssl.SSLContext) -> int:
    with (
        socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as plain,
        tls.wrap_socket(plain, server_hostname="localhost") as secured,
    ):
        shown = secured.getpeercert(binary_form=True)
        assert shown is not None
        return x509.load_der_x509_certificate(shown).serial_number


def test_http_and_https_side_by_side(serve: Serve, tmp_path: Path) -> None:
    store = AUTHORITY.sign("worker").write_pem(tmp_path / "worker.pem")
    server = serve(
        {
            "listeners": "https://127.0.0.1:0, http://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": store,
        }
    )
    secure, plain = server.ports
    assert get(secure, tls=AUTHORITY.client_context()) == (200, [])
    assert get(plain) == (200, [])
    assert server.url == f"http://127.0.0.1:{plain}/"
    with pytest.raises(ssl.SSLCertVerificationError):
        get(secure, tls=OTHER.client_context())


def test_advertised_listener_has_the_configured_scheme(serve: Serve, tmp_path: Path) -> None:
    store = AUTHORITY.sign("worker").write_pem(tmp_path / "worker.pem")
    both = {"listeners": "http://127.0.0.1:0,https://127.0.0.1:0", "ssl.keystore.location": store}
    server = serve({**both, "rest.advertised.listener": "https"})
    assert (server.url, server.worker_id) == (f"https://127.0.0.1:{server.ports[1]}/", f"127.0.0.1:{server.ports[1]}")
    server = serve(
        {**both, "rest.advertised.listener": "HTTPS", "rest.advertised.host.name": "w1", "rest.advertised.port": "443"}
    )
    assert (server.url, server.worker_id) == ("https://w1:443/", "w1:443")


@pytest.mark.parametrize("form", ["pkcs12", "encrypted pem", "settings"])
def test_every_key_store_format_works(form: str, serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    worker = AUTHORITY.sign("worker")
    props = {
        # keytool calls PKCS12 a .jks, and so does the setting's default.
        "pkcs12": {
            "ssl.keystore.location": worker.write_pkcs12(tmp_path / "worker.jks", "changeit"),
            "ssl.keystore.password": "changeit",
        },
        "encrypted pem": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": worker.write_pem(tmp_path / "worker.pem", "changeit"),
            "ssl.key.password": "changeit",
        },
        "settings": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": worker.key_pem("changeit"),
            "ssl.keystore.certificate.chain": worker.chain_pem(),
            "ssl.key.password": "changeit",
        },
    }[form]
    server = serve({"listeners": "https://127.0.0.1:0", **props})
    assert serial_at(server.ports[0], AUTHORITY.client_context()) == worker.serial
    assert server.url.startswith("https://127.0.0.1:")
    assert list(scratch.iterdir()) == [], "a key was left behind"


@pytest.mark.parametrize("store", ["pem", "pkcs12"])
def test_mutual_tls(store: str, serve: Serve, tmp_path: Path) -> None:
    trust = {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": AUTHORITY.pem()}
    if store == "pkcs12":
        location = AUTHORITY.write_pkcs12(tmp_path / "trust.p12", "changeit")
        trust = {"ssl.truststore.location": location, "ssl.truststore.password": "changeit"}
    props = {
        "ssl.keystore.location": AUTHORITY.sign("worker").write_pem(tmp_path / "worker.pem"),
        "listeners": "https://127.0.0.1:0",
        **trust,
    }
    friend = AUTHORITY.client_context((AUTHORITY.sign("friend"), tmp_path))
    stranger = AUTHORITY.client_context((OTHER.sign("stranger"), tmp_path))
    nobody = AUTHORITY.client_context()

    [required] = serve({**props, "ssl.client.auth": "required"}).ports
    assert get(required, tls=friend) == (200, [])
    for refused in (stranger, nobody):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            get(required, tls=refused)

    [requested] = serve({**props, "ssl.client.auth": "requested"}).ports
    assert get(requested, tls=friend) == (200, [])
    assert get(requested, tls=nobody) == (200, [])
    with pytest.raises((ssl.SSLError, ConnectionError)):
        get(requested, tls=stranger)


def test_keys_with_prefix_replace_keys_without(serve: Serve, tmp_path: Path) -> None:
    public, admin = AUTHORITY.sign("public"), AUTHORITY.sign("admin")
    server = serve(
        {
            "listeners": "https://127.0.0.1:0",
            "admin.listeners": "https://127.0.0.1:0",
            "ssl.keystore.location": "/nowhere",
            "ssl.client.auth": "required",
            "listeners.https.ssl.keystore.location": public.write_pem(tmp_path / "public.pem"),
            "admin.listeners.https.ssl.keystore.location": admin.write_pem(tmp_path / "admin.pem"),
        }
    )
    assert serial_at(server.ports[0], AUTHORITY.client_context()) == public.serial
    assert serial_at(server.admin_ports[0], AUTHORITY.client_context()) == admin.serial


def test_tls_versions_and_cipher_suites_are_applied(serve: Serve, tmp_path: Path) -> None:
    store = {"ssl.keystore.location": AUTHORITY.sign("worker").write_pem(tmp_path / "worker.pem")}

    def agreed(port: int, highest: ssl.TLSVersion) -> tuple[str | None, str]:
        tls = AUTHORITY.client_context()
        tls.maximum_version = highest
        with (
            socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as plain,
            tls.wrap_socket(plain, server_hostname="localhost") as secured,
        ):
            cipher = secured.cipher()
            assert cipher is not None
            return secured.version(), cipher[0]

    [old] = serve(
        {
            "listeners": "https://127.0.0.1:0",
            **store,
            "ssl.enabled.protocols": "TLSv1.2",
            "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        }
    ).ports
    assert agreed(old, ssl.TLSVersion.TLSv1_3) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")
    [new] = serve({"listeners": "https://127.0.0.1:0", **store, "ssl.cipher.suites": "TLS_AES_256_GCM_SHA384"}).ports
    assert agreed(new, ssl.TLSVersion.TLSv1_3)[0] == "TLSv1.3"
    with pytest.raises(ssl.SSLError):
        agreed(new, ssl.TLSVersion.TLSv1_2)


def test_changed_certificate_is_used_without_a_restart(serve: Serve, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "worker.pem"
    first, second = AUTHORITY.sign("worker"), AUTHORITY.sign("worker")
    first.write_pem(path)
    [port] = serve({"listeners": "https://127.0.0.1:0", "ssl.keystore.location": str(path)}).ports
    tls = AUTHORITY.client_context()
    open_before = http.client.HTTPSConnection("127.0.0.1", port, timeout=WAIT_S, context=tls)
    open_before.request("GET", "/connectors")
    assert open_before.getresponse().read() == b"[]"
    assert serial_at(port, tls) == first.serial

    path.write_text("-----BEGIN half a file")
    eventually(lambda: "keeping the old one" in caplog.text, "the warning")
    assert serial_at(port, tls) == first.serial

    second.write_pem(path)
    eventually(lambda: serial_at(port, tls) == second.serial, "the second certificate")
    # A connection that was open stays so.
    open_before.request("GET", "/connectors")
    assert open_before.getresponse().read() == b"[]"
    open_before.close()


def test_admin_listeners_serve_only_loggers_metrics_and_probes(serve: Serve) -> None:
    server = serve({"listeners": "http://127.0.0.1:0", "admin.listeners": "http://127.0.0.1:0"})
    [public], [admin] = server.ports, server.admin_ports
    missing = (404, {"error_code": 404, "message": "HTTP 404 Not Found"})
    assert get(admin, "/admin/loggers/root") == (200, {"level": "INFO", "last_modified": None})
    assert get(admin, "/connectors") == missing
    assert get(public, "/admin/loggers/root") == missing
    assert get(public) == (200, [])
    assert server.worker_id == f"127.0.0.1:{public}"
    paths = ["/admin/loggers", "/admin/loggers/{logger}", "/metrics", "/health/live", "/health/ready"]
    assert list(get(admin, "/openapi.json")[1]["paths"]) == paths


def test_basic_authentication(serve: Serve, tmp_path: Path) -> None:
    users = tmp_path / "users.properties"
    users.write_text("admin=s3cret\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "KafkaConnect {\n  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required\n"
        f'  file="{users}";\n}};\n'
    )
    server = serve(
        {
            "listeners": "http://127.0.0.1:0",
            "admin.listeners": "http://127.0.0.1:0",
            "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
            "rest.basic.auth.jaas.config.file": str(jaas),
            "response.http.headers.config": "set X-Frame-Options: DENY",
        }
    )
    [port] = server.ports
    assert get(port, Authorization="Basic YWRtaW46czNjcmV0") == (200, [])
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    client.request("GET", "/connectors", headers={"Authorization": "Basic YWRtaW46d3Jvbmc="})
    answer = client.getresponse()
    assert (answer.status, answer.read()) == (401, b"User cannot access the resource.")
    assert answer.headers["X-Frame-Options"] == "DENY"
    client.close()
    assert get(server.admin_ports[0], "/admin/loggers/root")[0] == 200

    users.write_text("admin=s3cret\nguest=more\n")
    assert get(port, Authorization="Basic Z3Vlc3Q6bW9yZQ==") == (200, [])


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
def test_body_over_the_limit_is_rejected(chunked: bool, serve: Serve, herder: FakeHerder) -> None:
    [port] = serve({"listeners": "http://127.0.0.1:0", "rest.max.request.size.bytes": "1000"}).ports
    body = json.dumps({"connector.class": "x", "long": "x" * 5_000_000}).encode()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
    headers = {"Content-Type": "application/json"}
    client.request("PUT", "/connectors/c/config", iter([body]) if chunked else body, headers, encode_chunked=chunked)
    answer = client.getresponse()
    message = "The request body exceeds 1000 bytes. To raise the limit, set rest.max.request.size.bytes of the worker"
    assert (answer.status, json.loads(answer.read())) == (413, {"error_code": 413, "message": message})
    assert herder.configs == {}
    client.close()


def test_client_that_never_completes_its_headers_is_disconnected(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 0.2)
    [port] = serve({"listeners": "http://127.0.0.1:0"}).ports
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as silent:
        assert silent.recv(1) == b""
    # Longer than it takes to send something, on a busy machine too.
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 3.0)
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as slow:
        slow.sendall(b"GET /connectors HTTP/1.1\r\nHost: x\r\nX-Header: ")
        assert slow.makefile("rb").readline() == b"HTTP/1.1 408 Request Timeout\r\n"
    monkeypatch.setattr(connection, "HEAD_TIMEOUT_S", 60.0)
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as long:
        long.sendall(b"GET /connectors HTTP/1.1\r\nX-Long: " + b"x" * (connection.MAX_HEAD_BYTES + 1))
        assert long.makefile("rb").readline() == b"HTTP/1.1 431 Request Header Fields Too Large\r\n"


def test_reads_are_served_while_configuration_requests_hang(
    serve: Serve, herder: FakeHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, entered = threading.Event(), threading.Semaphore(0)

    def hang(*args: object, **kwargs: object) -> None:
        entered.release()
        release.wait(5 * WAIT_S)

    monkeypatch.setattr(herder, "put_connector", hang)
    [port] = serve({"listeners": "http://127.0.0.1:0"}).ports
    body = b"{}"
    head = (
        f"PUT /connectors/c/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    hanging = []
    try:
        for _ in range(200):
            client = socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)
            client.sendall(head.encode() + body)
            hanging.append(client)
        for _ in range(RequestKind.CONFIGURE.threads):
            assert entered.acquire(timeout=WAIT_S)
        # Each within the time-out of its connection, which is shorter than what hangs.
        assert get(port) == (200, [])
        assert get(port, "/health")[0] == 200
        assert get(port, "/connectors/none/status")[0] == 404
        other = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)
        other.request("DELETE", "/connectors/none")
        assert other.getresponse().status == 404
        other.close()
    finally:
        release.set()
        for one in hanging:
            one.close()


@pytest.mark.parametrize(
    ("props", "text"),
    [
        ({}, r"no certificate is configured. Set ssl.keystore.location"),
        ({"ssl.keystore.location": "/nowhere"}, r"ssl.keystore.location: cannot be read: No such file"),
        ({"ssl.keystore.location": "{jks}"}, r"it begins as a JKS key store and is damaged: it ends too soon"),
        ({"ssl.keystore.location": "{junk}"}, r"it is neither PEM nor PKCS12 nor JKS"),
        ({"ssl.keystore.location": "{encrypted}"}, r"is encrypted; set ssl.key.password"),
        ({"ssl.keystore.location": "{encrypted}", "ssl.key.password": "wr0ng!"}, r"ssl.key.password does not open the key"),
        ({"ssl.keystore.location": "{p12}", "ssl.keystore.password": "wr0ng!"}, r"ssl.keystore.password is not its password"),
        ({"ssl.keystore.certificate.chain": "x"}, r"ssl.keystore.certificate.chain needs ssl.keystore.key"),
        ({"listeners.https.ssl.client.auth": "yes"}, r"listeners.https.ssl.client.auth: String must be one of"),
        ({"ssl.engine.factory.class": "a.B"}, r"names a Java class"),
        ({"ssl.enabled.protocols": "TLSv1.1"}, r"leave no secure TLS version"),
        ({"ssl.enabled.protocols": "TLSv9"}, r"expected TLSv1.2 or TLSv1.3"),
        ({"ssl.cipher.suites": "TLS_RSA_WITH_NOTHING"}, r"none of them is known here"),
    ],
)
def test_invalid_tls_settings_abort_startup(props: dict[str, str], text: str, tmp_path: Path) -> None:
    worker = AUTHORITY.sign("worker")
    (tmp_path / "jks").write_bytes(b"\xfe\xed\xfe\xed\x00\x00\x00\x02")
    (tmp_path / "junk").write_bytes(b"junk")
    files = {
        "jks": str(tmp_path / "jks"),
        "junk": str(tmp_path / "junk"),
        "encrypted": worker.write_pem(tmp_path / "encrypted", "changeit"),
        "p12": worker.write_pkcs12(tmp_path / "p12", "changeit"),
    }
    given = {key: value.format(**files) for key, value in props.items()}
    with pytest.raises(ConfigError, match=text) as told:
        RestServer.from_config(WorkerConfig.standalone({**PLAIN, "listeners": "https://127.0.0.1:0", **given}))
    assert "wr0ng!" not in told.value.message
