"""Stores of keytool's own making give what went into them, or say what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, PrivateFormat, load_pem_private_key
from cryptography.hazmat.primitives.serialization import NoEncryption as Open

from connect.errors import ConfigError
from connect.tls import Store, parse_store, read_identity, read_trusted_certificates
from tests import keytool
from tests.integration.rest.certificates import Authority

PASSWORD, OTHER = "changeit", "k3y-s3cret"
AUTHORITY = Authority()
WORKER = AUTHORITY.sign("worker")


@dataclass(frozen=True)
class Stores:
    folder: Path

    def store(self, name: str, password: str | None = PASSWORD, key_password: str | None = None) -> Store:
        return Store("ssl.keystore", str(self.folder / name), password, key_password)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    folder = tmp_path_factory.mktemp("stores")
    pem = folder / "authority.pem"
    pem.write_text(AUTHORITY.pem())
    WORKER.write_pkcs12(folder / "worker.p12", PASSWORD)
    for kind in ("JKS", "PKCS12", "JCEKS"):
        keytool.trust_store(folder / f"trust.{kind}", pem, kind, PASSWORD)
    keytool.key_store(folder / "key.JKS", folder / "worker.p12", "JKS", PASSWORD)
    keytool.key_store(folder / "key.own.JKS", folder / "worker.p12", "JKS", PASSWORD, OTHER)
    return Stores(folder)


@pytest.mark.parametrize("kind", ["JKS", "PKCS12"])
def test_trust_store_certificates_are_read(kind: str, stores: Stores) -> None:
    assert x509.load_pem_x509_certificates(read_trusted_certificates(stores.store(f"trust.{kind}")).encode()) == [
        AUTHORITY.certificate
    ]


def test_certificates_of_jks_are_read_without_a_password_as_in_java(stores: Stores) -> None:
    assert read_trusted_certificates(stores.store("trust.JKS", None)) == read_trusted_certificates(stores.store("trust.JKS"))


@pytest.mark.parametrize(
    ("name", "key_password"), [("key.JKS", None), ("key.JKS", PASSWORD), ("key.own.JKS", OTHER), ("worker.p12", None)]
)
def test_key_store_key_and_chain_are_read(name: str, key_password: str | None, stores: Stores) -> None:
    identity = read_identity(stores.store(name, PASSWORD, key_password))
    key = load_pem_private_key(identity.key.encode(), None)
    assert _der(key) == _der(WORKER.key)
    assert x509.load_pem_x509_certificates(identity.chain.encode()) == [WORKER.certificate]
    assert identity.password is None


def test_secrets_are_not_in_any_repr(stores: Stores) -> None:
    store = stores.store("key.own.JKS", PASSWORD, OTHER)
    shown = repr(store) + repr(read_identity(store))
    assert not [secret for secret in (PASSWORD, OTHER, "PRIVATE") if secret in shown]


@pytest.mark.parametrize(
    ("name", "password", "key_password", "said"),
    [
        (
            "key.JKS",
            "wr0ng",
            None,
            "it is a JKS key store, and ssl.keystore.password is not its password, or the file is damaged",
        ),
        ("key.own.JKS", PASSWORD, None, "ssl.keystore.password is not the password of its key"),
        ("key.own.JKS", PASSWORD, "wr0ng", "ssl.key.password is not the password of its key"),
        ("key.JKS", None, None, "its key needs a password; set ssl.keystore.password"),
        ("trust.JKS", PASSWORD, None, "it holds no private key"),
        ("trust.PKCS12", PASSWORD, None, "it holds no private key"),
        ("worker.p12", "wr0ng", None, "ssl.keystore.password is not its password"),
        ("trust.JCEKS", PASSWORD, None, "-srcstoretype JCEKS -destkeystore store.p12 -deststoretype PKCS12"),
        ("absent", PASSWORD, None, "cannot be read: No such file"),
    ],
)
def test_unusable_store_is_rejected_with_the_reason(
    name: str, password: str | None, key_password: str | None, said: str, stores: Stores
) -> None:
    with pytest.raises(ConfigError) as told:
        read_identity(stores.store(name, password, key_password))
    assert said in told.value.message
    assert not [secret for secret in (PASSWORD, OTHER, "wr0ng") if secret in told.value.message]


@pytest.mark.parametrize("password", [PASSWORD, None])
@pytest.mark.parametrize("name", ["key.JKS", "trust.JKS"])
def test_truncated_store_is_rejected(name: str, password: str | None, stores: Stores, tmp_path: Path) -> None:
    whole = (stores.folder / name).read_bytes()
    cut = tmp_path / "cut.jks"
    for size in range(4, len(whole) - 20):
        cut.write_bytes(whole[:size])
        with pytest.raises(ConfigError):
            read_trusted_certificates(Store("ssl.truststore", str(cut), password))


def test_password_reveals_a_changed_byte(stores: Stores, tmp_path: Path) -> None:
    whole = bytearray((stores.folder / "trust.JKS").read_bytes())
    whole[len(whole) // 2] ^= 1
    (tmp_path / "changed.jks").write_bytes(whole)
    with pytest.raises(ConfigError, match="or the file is damaged"):
        read_trusted_certificates(Store("ssl.truststore", str(tmp_path / "changed.jks"), PASSWORD))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"ssl.keystore.certificate.chain": "x"},
            "listeners.https.ssl.keystore.certificate.chain needs listeners.https.ssl.keystore.key",
        ),
        ({"ssl.keystore.location": "/nowhere"}, "listeners.https.ssl.keystore.location"),
    ],
)
def test_messages_name_the_settings_with_their_prefix(given: Mapping[str, str], said: str) -> None:
    store = parse_store(given, "ssl.keystore", "listeners.https.")
    assert store.key_password_key == "listeners.https.ssl.key.password"
    with pytest.raises(ConfigError) as told:
        read_identity(store)
    assert said in str(told.value)


def _der(key: PrivateKeyTypes) -> bytes:
    return key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, Open())
