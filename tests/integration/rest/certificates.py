"""Certificates of a test's own: an authority, and what it signs."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

_DAY = datetime.timedelta(days=1)


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


@dataclass(frozen=True, slots=True)
class Identity:
    """A key with its certificate."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    authority: x509.Certificate

    @property
    def serial(self) -> int:
        return self.certificate.serial_number

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = (
            NoEncryption() if password is None else BestAvailableEncryption(password.encode())
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def chain_pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pem(self, path: Path, password: str | None = None) -> str:
        path.write_text(self.key_pem(password) + self.chain_pem())
        return str(path)

    def write_pkcs12(self, path: Path, password: str) -> str:
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"worker", self.key, self.certificate, None, encryption))
        return str(path)


class Authority:
    """A certificate authority."""

    def __init__(self, name: str = "authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(name)
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self.certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(True, None), True)
            .add_extension(usage, True)
            .sign(self._key, hashes.SHA256())
        )

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _DAY)
            .not_valid_after(now + _DAY)
        )

    def sign(self, name: str) -> Identity:
        """A certificate for a name, and for this machine's own address."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
        builder = self._builder(_name(name), key.public_key()).add_extension(names, False)
        return Identity(key, builder.sign(self._key, hashes.SHA256()), self.certificate)

    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    def write_pkcs12(self, path: Path, password: str) -> str:
        """A trust store as keytool makes one."""
        entry = pkcs12.PKCS12Certificate(self.certificate, b"authority")
        path.write_bytes(pkcs12.serialize_java_truststore([entry], BestAvailableEncryption(password.encode())))
        return str(path)

    def client_context(self, identity: tuple[Identity, Path] | None = None) -> ssl.SSLContext:
        """What a client uses that trusts this authority; with an identity it shows that, written into the folder."""
        context = ssl.create_default_context(cadata=self.pem())
        if identity is not None:
            who, folder = identity
            context.load_cert_chain(who.write_pem(folder / f"client-{who.serial}.pem"))
        return context
