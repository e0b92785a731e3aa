"""Key stores and trust stores: their settings, and their contents as PEM."""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from connect.errors import ConfigError
from connect.tls import jks
from connect.tls.jks import StoreContents

_PEM = b"-----BEGIN"
_DER = b"\x30"
"""The tag of a sequence, with which a PKCS12 store starts."""


@dataclass(frozen=True, slots=True)
class Store:
    """The settings of a key store or trust store. ``key`` is the name of the settings up to ``.location``, for messages."""

    key: str
    location: str | None = None
    password: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    certificates: str | None = field(default=None, repr=False)
    """PEM in the settings themselves: the chain of a key store, or all certificates of a trust store."""
    private_key: str | None = field(default=None, repr=False)
    key_is_location: bool = False
    """Whether ``key`` itself is the setting of the file, and the password of the store also that of the key, as in Debezium."""

    @property
    def is_given(self) -> bool:
        """Whether the settings configure a store."""
        return self.location is not None or self.certificates is not None

    @property
    def location_key(self) -> str:
        """The setting with the file."""
        return self.key if self.key_is_location else f"{self.key}.location"

    @property
    def key_password_key(self) -> str:
        """The setting with the password of the key, which Java does not have below the store's name."""
        return f"{self.key}.password" if self.key_is_location else f"{self.key.rpartition('.')[0]}.key.password"

    def is_pem(self) -> bool:
        """Returns whether the file is PEM, which other programs read directly. Raises ConfigError when it cannot be read."""
        return _PEM in self.read()

    def read(self) -> bytes:
        """Returns the file's bytes. Raises ConfigError."""
        try:
            return Path(self.location or "").read_bytes()
        except OSError as e:
            raise self.error(f"cannot be read: {e.strerror}") from e

    def error(self, why: str) -> ConfigError:
        """Returns the error that says why the file cannot be used."""
        return ConfigError.invalid(self.location_key, self.location, why)


@dataclass(frozen=True, slots=True)
class Identity:
    """A private key and its certificate chain, starting with its own, both in PEM. ``password`` decrypts an encrypted key."""

    key: str = field(repr=False)
    chain: str
    password: str | None = field(default=None, repr=False)

    @property
    def pem(self) -> str:
        """The key and the chain in one text."""
        return self.key if self.key == self.chain else f"{self.key}\n{self.chain}\n"


def parse_store(given: Mapping[str, str], name: str, shown: str = "") -> Store:
    """Reads the settings ``ssl.keystore.*`` or ``ssl.truststore.*``; ``shown`` is their prefix in the file, for messages."""
    return Store(
        shown + name,
        given.get(f"{name}.location") or None,
        given.get(f"{name}.password") or None,
        given.get("ssl.key.password") or None,
        given.get(f"{name}.certificate.chain") or given.get(f"{name}.certificates") or None,
        given.get(f"{name}.key") or None,
    )


def read_identity(store: Store) -> Identity:
    """Reads the first key of a key store with its certificates. Raises ConfigError, which never shows a password."""
    if store.certificates is not None:
        if not store.private_key:
            raise ConfigError(f"{store.key}.certificate.chain needs {store.key}.key", key=f"{store.key}.key")
        return Identity(store.private_key, store.certificates, store.key_password)
    content = store.read()
    if _PEM in content:
        text = content.decode("utf-8", "replace")
        return Identity(text, text, store.key_password or store.password)
    opened = _open_store(store, content)
    if opened.is_locked:
        raise store.error(f"its key needs a password; set {store.key}.password")
    if opened.key is None or not opened.chain:
        raise store.error("it holds no private key with its certificate")
    return Identity(_pem("PRIVATE KEY", opened.key), "".join(_pem("CERTIFICATE", one) for one in opened.chain))


def read_trusted_certificates(store: Store) -> str:
    """Reads all certificates of a trust store as PEM. Raises ConfigError, which never shows a password."""
    if store.certificates is not None:
        return store.certificates
    content = store.read()
    if _PEM in content:
        return content.decode("utf-8", "replace")
    opened = _open_store(store, content)
    # Java trusts certificates without a key, and the first one of a key's chain.
    found = [*opened.trusted, *opened.chain[:1]]
    if not found:
        raise store.error("it holds no certificate to trust")
    return "".join(_pem("CERTIFICATE", one) for one in found)


def _open_store(store: Store, content: bytes) -> StoreContents:
    if content.startswith(jks.MAGIC):
        return _open_jks(store, content)
    if content.startswith(jks.JCEKS_MAGIC):
        raise store.error(
            f"it is a JCEKS key store, which only Java reads. Convert it: keytool -importkeystore -srckeystore {store.location} "
            f"-srcstoretype JCEKS -destkeystore store.p12 -deststoretype PKCS12, then set {store.location_key}=store.p12"
        )
    if not content.startswith(_DER):
        raise store.error("it is neither PEM nor PKCS12 nor JKS")
    return _open_pkcs12(store, content)


def _open_jks(store: Store, content: bytes) -> StoreContents:
    try:
        return jks.read_jks(content, store.password, store.key_password)
    except jks.WrongPasswordError as e:
        key = store.key_password_key if e.of_key and store.key_password else f"{store.key}.password"
        what = "the password of its key" if e.of_key else "its password"
        raise store.error(f"it is a JKS key store, and {key} is not {what}, or the file is damaged") from e
    except jks.DamagedError as e:
        raise store.error(f"it begins as a JKS key store and is damaged: {e}") from e


def _open_pkcs12(store: Store, content: bytes) -> StoreContents:
    # The import would take half of a worker's startup time, and most workers do not need it.
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

    try:
        found = pkcs12.load_pkcs12(content, None if store.password is None else store.password.encode())
    except ValueError as e:
        raise store.error(f"it is no PKCS12 key store, or {store.key}.password is not its password") from e
    others = [one.certificate.public_bytes(Encoding.DER) for one in found.additional_certs]
    own = [] if found.cert is None else [found.cert.certificate.public_bytes(Encoding.DER)]
    if found.key is None:
        return StoreContents(trusted=own + others)
    key = found.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return StoreContents(key, own + others, others)


def _pem(label: str, der: bytes) -> str:
    text = binascii.b2a_base64(der, newline=False).decode()
    lines = "\n".join(text[at : at + 64] for at in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"
