"""TLS files of Java's kinds, as the registry's client takes them: PEM files.

PEM and PKCS12 stores are taken, told apart by their bytes, not by name or type. A JKS store is refused with the command that
converts it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12

from connect.config.parsing import Password
from connect.errors import ConfigError
from connectors.registry.config import SSL, TlsSettings

_JKS_MAGIC = b"\xfe\xed\xfe\xed"
_PEM = b"-----BEGIN"


@contextmanager
def pem_files(tls: TlsSettings) -> Iterator[dict[str, str]]:
    """The client's settings, with files that live as long as the block: the client reads them when it is made.

    Raises ConfigError for a store that cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="sluice-registry-") as folder:  # only its owner can enter it
        yield _trust(tls, Path(folder)) | _identity(tls, Path(folder))


def _trust(tls: TlsSettings, folder: Path) -> dict[str, str]:
    target = folder / "trust.pem"
    if tls.truststore_certificates is not None:
        target.write_text(tls.truststore_certificates.value, encoding="utf-8")
        return {"ssl.ca.location": str(target)}
    location = tls.truststore_location
    if location is None:
        return {}
    data = _read("truststore", location)
    if _PEM in data:
        return {"ssl.ca.location": location}
    store = _pkcs12("truststore", location, data, tls.truststore_password)
    certificates = [c.certificate.public_bytes(Encoding.PEM) for c in store.additional_certs]
    if store.cert is not None:
        certificates.append(store.cert.certificate.public_bytes(Encoding.PEM))
    if not certificates:
        raise ConfigError.invalid(f"{SSL}truststore.location", location, "there is no certificate in it")
    target.write_bytes(b"".join(certificates))
    return {"ssl.ca.location": str(target)}


def _identity(tls: TlsSettings, folder: Path) -> dict[str, str]:
    password = {"ssl.key.password": tls.key_password.value} if tls.key_password is not None else {}
    target = folder / "identity.pem"
    if tls.keystore_certificate_chain is not None:
        if tls.keystore_key is None:
            raise ConfigError(f"{SSL}keystore.certificate.chain needs {SSL}keystore.key", key=f"{SSL}keystore.key")
        target.write_text(f"{tls.keystore_key.value}\n{tls.keystore_certificate_chain.value}\n", encoding="utf-8")
        return {"ssl.certificate.location": str(target), **password}
    location = tls.keystore_location
    if location is None:
        return {}
    data = _read("keystore", location)
    if _PEM in data:
        return {"ssl.certificate.location": location, **password}
    store = _pkcs12("keystore", location, data, tls.keystore_password)
    if store.key is None or store.cert is None:
        raise ConfigError.invalid(f"{SSL}keystore.location", location, "there is no key with a certificate in it")
    target.write_bytes(
        store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        + store.cert.certificate.public_bytes(Encoding.PEM)
        + b"".join(c.certificate.public_bytes(Encoding.PEM) for c in store.additional_certs)
    )
    return {"ssl.certificate.location": str(target)}


def _read(kind: str, location: str) -> bytes:
    try:
        data = Path(location).read_bytes()
    except OSError as e:
        raise ConfigError.invalid(f"{SSL}{kind}.location", location, f"cannot be read: {e.strerror}") from e
    if data.startswith(_JKS_MAGIC):
        raise ConfigError.invalid(
            f"{SSL}{kind}.location",
            location,
            f"it is a JKS key store, which only Java reads. Convert it: keytool -importkeystore -srckeystore {location} "
            f"-destkeystore store.p12 -deststoretype PKCS12, then set {SSL}{kind}.location=store.p12 and {SSL}{kind}.type=PKCS12",
        )
    return data


def _pkcs12(kind: str, location: str, data: bytes, password: Password | None) -> pkcs12.PKCS12KeyAndCertificates:
    try:
        return pkcs12.load_pkcs12(data, password.value.encode() if password is not None else None)
    except ValueError as e:
        raise ConfigError.invalid(
            f"{SSL}{kind}.location", location, f"it is neither PEM nor a PKCS12 key store that {SSL}{kind}.password opens"
        ) from e
