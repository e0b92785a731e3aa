"""Reads JKS key stores, Java's default format before version 9 and keytool's with ``-storetype JKS``.

OpenJDK's ``sun.security.provider.JavaKeyStore`` defines the layout and ``KeyProtector`` the encryption of keys: they are XORed
with a stream of SHA-1 digests of the password. Numbers are big-endian; texts are in the format of Java's ``writeUTF``.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from dataclasses import dataclass, field

MAGIC = b"\xfe\xed\xfe\xed"
JCEKS_MAGIC = b"\xce\xce\xce\xce"

_KEY, _CERTIFICATE = 1, 2
_DIGEST = 20
_WHITENER = b"Mighty Aphrodite"
_PROTECTION = bytes.fromhex("2b060104012a02110101")
"""The object identifier 1.3.6.1.4.1.42.2.17.1.1."""


class DamagedError(ValueError):
    """The bytes are not a complete store."""


class WrongPasswordError(ValueError):
    """The password of the store, or with ``of_key`` of the key, is wrong."""

    def __init__(self, *, of_key: bool) -> None:
        super().__init__("the password is wrong")
        self.of_key = of_key


def read_jks(content: bytes, password: str | None, key_password: str | None = None) -> StoreContents:
    """Reads a store. Without a password, as in Java, its certificates are read without an integrity check, and its key stays
    locked. Raises DamagedError and WrongPasswordError."""
    reader = _JksReader(content)
    reader.take(len(MAGIC))
    version = reader.number()
    if version not in (1, 2):
        raise DamagedError(f"version {version}")
    if password is not None:
        _check_digest(content, password)
    found = StoreContents()
    for _ in range(reader.number()):
        kind = reader.number()
        reader.text()  # its alias
        reader.take(8)  # when it was made
        if kind == _KEY:
            protected = reader.take(reader.number())
            chain = [_read_certificate(reader, version) for _ in range(reader.number())]
            if password is None:
                found.is_locked = True
            elif found.key is None:
                found.key, found.chain = _decrypt_key(protected, key_password or password), chain
        elif kind == _CERTIFICATE:
            found.trusted.append(_read_certificate(reader, version))
        else:
            raise DamagedError(f"an entry of kind {kind}")
    return found


class _JksReader:
    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise DamagedError("it ends too soon")
        self._at += size
        return taken

    def number(self) -> int:
        number: int = struct.unpack(">I", self.take(4))[0]
        return number

    def text(self) -> bytes:
        return self.take(struct.unpack(">H", self.take(2))[0])


def _read_certificate(reader: _JksReader, version: int) -> bytes:
    if version == 2:
        reader.text()  # X.509
    return reader.take(reader.number())


def _java_password_bytes(password: str) -> bytes:
    return password.encode("utf-16-be")


def _check_digest(content: bytes, password: str) -> None:
    if len(content) < _DIGEST:
        raise DamagedError("it ends too soon")
    digest = hashlib.sha1(_java_password_bytes(password) + _WHITENER + content[:-_DIGEST]).digest()
    if not hmac.compare_digest(digest, content[-_DIGEST:]):
        raise WrongPasswordError(of_key=False)


def _decrypt_key(protected: bytes, password: str) -> bytes:
    data = _encrypted_bytes(protected)
    salt, mixed, check = data[:_DIGEST], data[_DIGEST:-_DIGEST], data[-_DIGEST:]
    secret = _java_password_bytes(password)
    stream, block = b"", salt
    while len(stream) < len(mixed):
        block = hashlib.sha1(secret + block).digest()
        stream += block
    key = bytes(a ^ b for a, b in zip(mixed, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + key).digest(), check):
        raise WrongPasswordError(of_key=True)
    return key


def _encrypted_bytes(info: bytes) -> bytes:
    """Returns the encrypted bytes of an EncryptedPrivateKeyInfo (RFC 5208), after checking the algorithm."""
    body, _ = _read_der_element(info, 0x30)
    algorithm, rest = _read_der_element(body, 0x30)
    name, _ = _read_der_element(algorithm, 0x06)
    if name != _PROTECTION:
        raise DamagedError("its key is not protected with JKS's own algorithm")
    data, _ = _read_der_element(rest, 0x04)
    if len(data) < 2 * _DIGEST:
        raise DamagedError("its key is cut off")
    return data


def _read_der_element(der: bytes, tag: int) -> tuple[bytes, bytes]:
    """Returns the content of the first DER element, and the bytes after it."""
    if len(der) < 2 or der[0] != tag:
        raise DamagedError("its key cannot be read")
    size, begin = der[1], 2
    if size & 0x80:
        begin += size & 0x7F
        size = int.from_bytes(der[2:begin])
    if len(der) < begin + size:
        raise DamagedError("its key is cut off")
    return der[begin : begin + size], der[begin + size :]


@dataclass(slots=True)
class StoreContents:
    """Key and certificates in DER."""

    key: bytes | None = field(default=None, repr=False)
    """The first private key, in PKCS8."""
    chain: list[bytes] = field(default_factory=list)
    """The certificate chain of that key, starting with its own."""
    trusted: list[bytes] = field(default_factory=list)
    """Certificates without a key."""
    is_locked: bool = False
    """Whether there is a key, but no password for it."""
