"""Hashes of passwords (scrypt, RFC 7914, or bcrypt) and of tokens (SHA-256), as the files of users and tokens have them.

A scrypt hash has the form of passlib and other tools: ``$scrypt$ln=15,r=8,p=1$<salt>$<hash>``, in base64 without padding. A
bcrypt hash has that of ``htpasswd -B``: ``$2y$<cost>$<salt and hash>``, or with ``$2a$`` or ``$2b$``, which mean the same today.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from connect.errors import ConfigError
from connect.extras import require_extra

_LOG_N, _R, _P = 15, 8, 1
_MAX_LOG_N, _MAX_R, _MAX_P = 17, 16, 4
"""Bounds for hashes from elsewhere: one must not take seconds, or gigabytes."""
_FORM = re.compile(r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/.]{11,88})\$([A-Za-z0-9+/.]{22,88})")
_BCRYPT_FORM = re.compile(r"\$2[aby]\$(\d{2})\$[./A-Za-z0-9]{53}")
_MIN_BCRYPT_COST, _MAX_BCRYPT_COST = 4, 14
_BCRYPT_BYTES = 72
"""What the algorithm, and with it ``htpasswd``, uses of a password."""
_TOKEN_FORM = re.compile(r"sha256:([0-9a-f]{64})")
TOKEN_PREFIX = "slc_"
"""Begins every token of ``sluice auth token``, so that scanners for leaked secrets can find them."""


def hash_password(password: str) -> str:
    """Returns the hash of a password with a new salt. Takes about a tenth of a second."""
    salt = secrets.token_bytes(16)
    return f"$scrypt$ln={_LOG_N},r={_R},p={_P}${_encode(salt)}${_encode(_derive(password, salt, _LOG_N, _R, _P, 32))}"


def check_hash(text: str) -> None:
    """Raises ConfigError for a text that is not a password hash, MissingExtraError for one that needs a package."""
    if (bcrypt_form := _BCRYPT_FORM.fullmatch(text)) is not None:
        if not _MIN_BCRYPT_COST <= int(bcrypt_form[1]) <= _MAX_BCRYPT_COST:
            raise ConfigError(
                f"expected a bcrypt hash with a cost of {_MIN_BCRYPT_COST} to {_MAX_BCRYPT_COST}: htpasswd -B -C 12"
            )
        require_extra("bcrypt", "a bcrypt hash")
        return
    found = _FORM.fullmatch(text)
    if found is None:
        raise ConfigError(
            "expected a hash that sluice auth user writes, $scrypt$ln=...,r=...,p=...$SALT$HASH, or one that htpasswd -B writes, "
            "$2y$COST$..."
        )
    log_n, r, p = map(int, found.groups()[:3])
    if not (1 <= log_n <= _MAX_LOG_N and 1 <= r <= _MAX_R and 1 <= p <= _MAX_P):
        raise ConfigError(f"the hash is too expensive to check: at most ln={_MAX_LOG_N},r={_MAX_R},p={_MAX_P}")
    try:
        _decode(found[4])
        _decode(found[5])
    except binascii.Error as e:
        raise ConfigError("salt or hash is not base64") from e


def is_password(password: str, hashed: str) -> bool:
    """Returns whether a password has this hash, in constant time. The hash has passed :func:`check_hash`. Takes from a tenth of a
    second to a second."""
    if _BCRYPT_FORM.fullmatch(hashed) is not None:
        return _is_bcrypt_password(password, hashed)
    found = _FORM.fullmatch(hashed)
    if found is None:
        return False
    expected = _decode(found[5])
    derived = _derive(password, _decode(found[4]), int(found[1]), int(found[2]), int(found[3]), len(expected))
    return hmac.compare_digest(derived, expected)


def _is_bcrypt_password(password: str, hashed: str) -> bool:
    import bcrypt  # only workers with such hashes need it

    try:
        return bcrypt.checkpw(password.encode()[:_BCRYPT_BYTES], hashed.encode())
    except ValueError:  # some versions reject a NUL
        return False


def new_token() -> str:
    """Returns a random token of 256 bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def hash_token(token: str) -> str:
    """Returns the hash of a token. A fast hash suffices, since tokens are random and long."""
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()}"


def check_token_hash(text: str) -> None:
    """Raises ConfigError for a text that is not the hash of a token."""
    if _TOKEN_FORM.fullmatch(text) is None:
        raise ConfigError("expected a hash that sluice auth token writes, sha256: and 64 hexadecimal digits")


def _derive(password: str, salt: bytes, log_n: int, r: int, p: int, size: int) -> bytes:
    memory = 128 * r * (1 << log_n) * 2 + 1024 * 1024
    return hashlib.scrypt(password.encode(), salt=salt, n=1 << log_n, r=r, p=p, maxmem=memory, dklen=size)


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode().rstrip("=")


def _decode(text: str) -> bytes:
    plain = text.replace(".", "+")  # passlib's alphabet
    return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)


UNKNOWN_USER_HASH = f"$scrypt$ln={_LOG_N},r={_R},p={_P}${_encode(bytes(16))}${_encode(bytes(32))}"
"""A hash that no password has, for a file without users."""
