"""TLS of a member from Java's keys: contexts that shake hands, or say why not."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import cast

import pytest

from connect.errors import ConfigError
from tests.unit.worker.group import certificates
from worker.group.config import tls_context

AUTHORITY = certificates.make("authority")
HOST = certificates.make("host", AUTHORITY)
CLIENT = certificates.make("client", AUTHORITY)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    contents = {
        "trust.pem": AUTHORITY.pem.encode(),
        "trust.jks": certificates.trust_store(AUTHORITY, "changeit"),
        "client.pem": (CLIENT.key_pem() + CLIENT.pem).encode(),
        "locked.pem": (CLIENT.key_pem("k3y") + CLIENT.pem).encode(),
        "client.p12": CLIENT.pkcs12("changeit"),
        "old.jks": b"\xfe\xed\xfe\xed\x00\x00",
        "host.pem": (HOST.key_pem() + HOST.pem).encode(),
        "nothing.pem": b"no store",
    }
    for name, data in contents.items():
        (tmp_path / name).write_bytes(data)
    return {name: str(tmp_path / name) for name in contents}


def shake_hands(client: ssl.SSLContext, files: dict[str, str], host: str = "127.0.0.1") -> str | None:
    """The common name of the client's certificate, as the server sees it."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files["host.pem"])
    server.load_verify_locations(files["trust.pem"])
    server.verify_mode = ssl.CERT_OPTIONAL
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(to_client, to_server, server_hostname=host), server.wrap_bio(to_server, to_client, server_side=True)]
    open_ends = list(ends)
    for _ in range(10):
        for end in list(open_ends):
            try:
                end.do_handshake()
                open_ends.remove(end)
            except ssl.SSLWantReadError:
                pass
    assert open_ends == []
    certificate = ends[1].getpeercert()
    if not certificate:
        return None
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate["subject"])
    return dict(part[0] for part in subject)["commonName"]


@pytest.mark.parametrize(
    ("java", "client"),
    [
        ({"ssl.truststore.location": "{trust.pem}", "ssl.truststore.type": "PEM"}, None),
        ({"ssl.truststore.location": "{trust.jks}", "ssl.truststore.password": "changeit"}, None),
        ({"ssl.truststore.certificates": AUTHORITY.pem, "ssl.keystore.location": "{client.pem}"}, "client"),
        (
            {"ssl.truststore.location": "{trust.pem}", "ssl.keystore.location": "{locked.pem}", "ssl.key.password": "k3y"},
            "client",
        ),
        (
            {
                "ssl.truststore.location": "{trust.pem}",
                "ssl.keystore.location": "{client.p12}",
                "ssl.keystore.password": "changeit",
                "ssl.key.password": "changeit",
            },
            "client",
        ),
        (
            {
                "ssl.truststore.certificates": AUTHORITY.pem,
                "ssl.keystore.certificate.chain": CLIENT.pem,
                "ssl.keystore.key": CLIENT.key_pem("k3y"),
                "ssl.key.password": "k3y",
                "ssl.enabled.protocols": "TLSv1.3",
            },
            "client",
        ),
    ],
)
def test_stores_of_every_type_are_supported(java: dict[str, str], client: str | None, files: dict[str, str]) -> None:
    settings = {key: files[value[1:-1]] if value.startswith("{") else value for key, value in java.items()}
    assert shake_hands(tls_context(settings), files) == client


def test_hostname_is_verified_unless_the_algorithm_is_empty(files: dict[str, str]) -> None:
    trust = {"ssl.truststore.location": files["trust.pem"]}
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tls_context(trust), files, host="elsewhere.example")
    shake_hands(tls_context({**trust, "ssl.endpoint.identification.algorithm": ""}), files, host="elsewhere.example")


@pytest.mark.parametrize(
    ("java", "versions"),
    [
        ({}, ("TLSv1_2", "TLSv1_3")),
        ({"ssl.enabled.protocols": "TLSv1.3"}, ("TLSv1_3", "TLSv1_3")),
        ({"ssl.cipher.suites": "TLS_AES_256_GCM_SHA384,TLS_AES_128_GCM_SHA256"}, ("TLSv1_3", "TLSv1_3")),
        ({"ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, ("TLSv1_2", "TLSv1_2")),
    ],
)
def test_only_configured_versions_and_suites_are_enabled(java: dict[str, str], versions: tuple[str, str]) -> None:
    context = tls_context(java)
    assert (context.minimum_version.name, context.maximum_version.name) == versions
    older = [suite["name"] for suite in context.get_ciphers() if suite["protocol"] == "TLSv1.2"]
    assert older == ["ECDHE-ECDSA-AES256-GCM-SHA384"] if "ECDHE" in str(java) else len(older) > 3


def test_unknown_authority_is_rejected(files: dict[str, str]) -> None:
    other = certificates.make("another authority")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(tls_context({"ssl.truststore.certificates": other.pem}), files)


@pytest.mark.parametrize(
    ("java", "said"),
    [
        ({"ssl.truststore.location": "{old.jks}"}, "it begins as a JKS key store and is damaged"),
        ({"ssl.truststore.location": "{nothing.pem}"}, "it is neither PEM nor PKCS12 nor JKS"),
        (
            {"ssl.truststore.location": "{trust.jks}", "ssl.truststore.password": "wr0ng"},
            "truststore.password is not its password",
        ),
        ({"ssl.truststore.location": "absent.pem"}, "cannot be read: No such file"),
        ({"ssl.truststore.certificates": "nonsense"}, "holds no certificate"),
        ({"ssl.keystore.location": "{trust.pem}"}, "no key and chain that belong together"),
        ({"ssl.keystore.location": "{locked.pem}"}, "is encrypted; set ssl.key.password"),
        ({"ssl.keystore.location": "{locked.pem}", "ssl.key.password": "wr0ng"}, "ssl.key.password does not open the key"),
        (
            {"ssl.keystore.location": "{trust.jks}", "ssl.keystore.password": "changeit"},
            "it holds no private key with its certificate",
        ),
        ({"ssl.keystore.certificate.chain": CLIENT.pem}, "needs ssl.keystore.key"),
        ({"ssl.engine.factory.class": "a.b.C"}, "names a Java class"),
    ],
)
def test_unsupported_setting_is_rejected_with_a_suggestion(java: dict[str, str], said: str, files: dict[str, str]) -> None:
    settings = {key: files[value[1:-1]] if value.startswith("{") else value for key, value in java.items()}
    with pytest.raises(ConfigError) as caught:
        tls_context(settings)
    assert said in caught.value.message
    assert "wr0ng" not in caught.value.message
