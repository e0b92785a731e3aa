"""Session keys of requests between workers."""

from __future__ import annotations

import base64

import pytest

from connect.errors import BadRequestError, ConfigError, ForbiddenError, NotReadyError
from tests.unit.worker.distributed.fakes import PROPS
from worker.config.distributed_config import DistributedSettings
from worker.config.worker_config import WorkerConfig
from worker.distributed.session_keys import expires_in_ms, is_due, new_session_key, sign, verify
from worker.model import RequestSignature
from worker.storage.record_codec import SessionKey


def settings(**more: str) -> DistributedSettings:
    found = WorkerConfig.for_cluster(PROPS | {key.replace("_", "."): value for key, value in more.items()}).distributed
    assert found is not None
    return found


@pytest.mark.parametrize(("algorithm", "size"), [("HmacSHA256", 32), ("HmacSHA512", 64), ("HmacSHA1", 64), ("HmacMD5", 64)])
def test_key_has_the_size_of_javas(algorithm: str, size: int) -> None:
    key = new_session_key(settings(inter_worker_key_generation_algorithm=algorithm), 7)
    assert (len(key.key), key.algorithm, key.creation_timestamp_ms) == (size, algorithm, 7)


def test_keys_are_random() -> None:
    assert new_session_key(settings(), 1).key != new_session_key(settings(), 1).key


def test_key_expires() -> None:
    own = settings(inter_worker_key_ttl_ms="1000")
    key = new_session_key(own, 5000)
    assert not is_due(key, own, 5999)
    assert is_due(key, own, 6000)
    assert expires_in_ms(key, own, 5250) == 750


@pytest.mark.parametrize("more", [{"inter_worker_key_generation_algorithm": "HmacSHA512"}, {"inter_worker_key_size": "128"}])
def test_key_of_other_settings_is_due(more: dict[str, str]) -> None:
    assert is_due(new_session_key(settings(), 0), settings(**more), 1)


def test_missing_key_is_due() -> None:
    assert is_due(None, settings(), 0)


# HMAC-SHA-256 test case 2 of RFC 4231.
RFC_KEY = SessionKey(b"Jefe", "HmacSHA256", 0)
RFC_BODY = b"what do ya want for nothing?"
RFC_MAC = bytes.fromhex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")


def test_signature_is_the_hmac_of_the_body() -> None:
    headers = sign(RFC_BODY, RFC_KEY, "HmacSHA256")
    assert base64.b64decode(headers.authorization) == RFC_MAC
    verify(RequestSignature(RFC_BODY, headers.authorization, headers.algorithm), RFC_KEY, ("HmacSHA256",))


@pytest.mark.parametrize("request_", [None, RequestSignature(b"", None, "HmacSHA256"), RequestSignature(b"", "AAAA", None)])
def test_missing_signature_is_rejected(request_: RequestSignature | None) -> None:
    with pytest.raises(BadRequestError, match="Internal request missing required signature"):
        verify(request_, RFC_KEY, ("HmacSHA256",))


def test_unsupported_algorithm_is_rejected() -> None:
    headers = sign(RFC_BODY, RFC_KEY, "HmacSHA1")
    with pytest.raises(BadRequestError, match="does not support the 'HmacSHA1'"):
        verify(RequestSignature(RFC_BODY, headers.authorization, headers.algorithm), RFC_KEY, ("HmacSHA256",))


def test_nothing_is_verified_without_a_key() -> None:
    with pytest.raises(NotReadyError):
        verify(RequestSignature(RFC_BODY, "AAAA", "HmacSHA256"), None, ("HmacSHA256",))


@pytest.mark.parametrize("signature", ["AAAA", "not base64!", base64.b64encode(RFC_MAC[:-1]).decode()])
def test_wrong_signature_is_rejected(signature: str) -> None:
    with pytest.raises(ForbiddenError, match=r"Internal request contained invalid signature\."):
        verify(RequestSignature(RFC_BODY, signature, "HmacSHA256"), RFC_KEY, ("HmacSHA256",))


def test_signature_of_another_body_is_rejected() -> None:
    headers = sign(RFC_BODY, RFC_KEY, "HmacSHA256")
    with pytest.raises(ForbiddenError):
        verify(RequestSignature(RFC_BODY + b" ", headers.authorization, headers.algorithm), RFC_KEY, ("HmacSHA256",))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("inter.worker.signature.algorithm", "HmacSHA1", "must be one of inter.worker.verification.algorithms"),
        ("inter.worker.signature.algorithm", "ROT13", "expected one of HmacSHA1"),
        ("inter.worker.verification.algorithms", "", "At least one signature verification algorithm must be provided"),
        ("status.storage.topic", "c", "must be three different topics"),
        ("config.storage.topic", "", "Invalid value  for configuration config.storage.topic: it must be a topic name"),
        ("status.storage.topic", "my status", "Invalid value my status for configuration status.storage.topic"),
        ("offset.storage.topic", "..", r"except \. and \.\."),
        ("offset.storage.partitions", "0", "expected at least 1, or -1 for the broker's default"),
        ("status.storage.replication.factor", "-2", "expected at least 1, or -1 for the broker's default"),
    ],
)
def test_invalid_settings_are_rejected(key: str, value: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        WorkerConfig.for_cluster({**PROPS, key: value})
