"""TLS stores of Java's kinds, as the registry's client takes them: PEM files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from connect.config.parsing import Password
from connect.tls import Store, read_identity, read_trusted_certificates
from connectors.registry.config import SSL, TlsSettings


@contextmanager
def pem_files(tls: TlsSettings) -> Iterator[dict[str, str]]:
    """The client's settings, with files that live as long as the block: the client reads them when it is made.

    Raises ConfigError for a store that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-registry-") as folder:  # only its owner can enter it
        yield _trust(tls, Path(folder) / "trust.pem") | _identity(tls, Path(folder) / "identity.pem")


def _trust(tls: TlsSettings, target: Path) -> dict[str, str]:
    store = Store(
        f"{SSL}truststore",
        tls.truststore_location,
        _text(tls.truststore_password),
        certificates=_text(tls.truststore_certificates),
    )
    if not store.is_given:
        return {}
    target.write_text(read_trusted_certificates(store), encoding="utf-8")
    return {"ssl.ca.location": str(target)}


def _identity(tls: TlsSettings, target: Path) -> dict[str, str]:
    store = Store(
        f"{SSL}keystore",
        tls.keystore_location,
        _text(tls.keystore_password),
        _text(tls.key_password),
        _text(tls.keystore_certificate_chain),
        _text(tls.keystore_key),
    )
    if not store.is_given:
        return {}
    identity = read_identity(store)
    target.write_text(identity.pem, encoding="utf-8")
    password = {} if identity.password is None else {"ssl.key.password": identity.password}
    return {"ssl.certificate.location": str(target), **password}


def _text(secret: Password | None) -> str | None:
    return None if secret is None else secret.value
