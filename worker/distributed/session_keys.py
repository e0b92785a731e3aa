"""Session keys that sign requests between workers (KIP-507): creation, expiry, signing, and verification."""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from dataclasses import dataclass, field

from connect.errors import BadRequestError, ForbiddenError, NotReadyError
from worker.config.distributed_config import DistributedSettings, hash_name
from worker.model import RequestSignature
from worker.storage.record_codec import SessionKey

_SIZES = {"sha1": 64, "md5": 64, "sha224": 28, "sha256": 32, "sha384": 48, "sha512": 64}
"""Default key sizes in bytes, without inter.worker.key.size, by hash: those of Java's generators."""


@dataclass(frozen=True, slots=True)
class SignedHeaders:
    """The two headers of a signed request."""

    authorization: str = field(repr=False)
    algorithm: str


def new_session_key(settings: DistributedSettings, now_ms: int) -> SessionKey:
    """Creates a key with the settings ``inter.worker.key.*``."""
    hashing = hash_name(settings.key_algorithm) or "sha256"
    size = _SIZES[hashing] if settings.key_size_bits is None else (settings.key_size_bits + 7) // 8
    return SessionKey(secrets.token_bytes(size), settings.key_algorithm, now_ms)


def is_due(key: SessionKey | None, settings: DistributedSettings, now_ms: int) -> bool:
    """Returns whether the leader has to create a key: there is none, it has expired, or the settings have changed."""
    if key is None or key.algorithm != settings.key_algorithm:
        return True
    if settings.key_size_bits is not None and len(key.key) * 8 != settings.key_size_bits:
        return True
    return 0 < settings.key_ttl_ms <= now_ms - key.creation_timestamp_ms


def expires_in_ms(key: SessionKey | None, settings: DistributedSettings, now_ms: int) -> int | None:
    """Returns the time until the key expires; None for never."""
    if key is None or settings.key_ttl_ms <= 0:
        return None
    return max(0, key.creation_timestamp_ms + settings.key_ttl_ms - now_ms)


def sign(body: bytes, key: SessionKey, algorithm: str) -> SignedHeaders:
    """Returns the headers for a request with this body."""
    return SignedHeaders(base64.b64encode(_mac(body, key, algorithm)).decode(), algorithm)


def sign_text(text: bytes, key: SessionKey | None, algorithm: str) -> RequestSignature | None:
    """Returns the signature of a text for another worker; None without a key."""
    if key is None:
        return None
    headers = sign(text, key, algorithm)
    return RequestSignature(text, headers.authorization, headers.algorithm)


def verify(request: RequestSignature | None, key: SessionKey | None, algorithms: tuple[str, ...]) -> None:
    """Raises BadRequestError, NotReadyError or ForbiddenError, in this order of checks and with Apache's messages."""
    if request is None or request.signature is None or request.algorithm is None:
        raise BadRequestError("Internal request missing required signature")
    if request.algorithm not in algorithms or hash_name(request.algorithm) is None:
        raise BadRequestError(
            f"This worker does not support the '{request.algorithm}' key signing algorithm used by other workers. This worker is "
            f"currently configured to use: [{', '.join(algorithms)}]. Check that all workers' configuration files permit the "
            "same set of signature algorithms, and correct any misconfigured worker and restart it."
        )
    if key is None:
        raise NotReadyError(
            "This worker is still starting up and has not been able to read a session key from the config topic yet"
        )
    try:
        given = base64.b64decode(request.signature, validate=True)
    except (binascii.Error, ValueError):
        given = b""
    if not hmac.compare_digest(given, _mac(request.body, key, request.algorithm)):
        raise ForbiddenError("Internal request contained invalid signature.")


def _mac(body: bytes, key: SessionKey, algorithm: str) -> bytes:
    return hmac.digest(key.key, body, hash_name(algorithm) or "sha256")
