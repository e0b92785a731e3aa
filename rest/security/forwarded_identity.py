"""The identity of a caller in a request that one worker forwards to another.

The worker that received the request signs method, target, body, caller, and time with the cluster's session key (KIP-507). The
other worker applies its own roles to that caller. A signature is valid for no other request, and for two minutes.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from connect.errors import ConnectError, IllegalStateError
from rest.security.identity import Identity
from worker.model import RequestSignature

IDENTITY_HEADER = "X-Sluice-Identity"
SIGNATURE_HEADER = "X-Sluice-Identity-Signature"
ALGORITHM_HEADER = "X-Sluice-Identity-Signature-Algorithm"
_PREFIX = b"sluice-identity-1\n"
"""Separates these signatures from those of KIP-507, whose text is the body alone."""
_MAX_AGE_S = 120.0
_REJECTED = (
    "The signature of the worker that forwarded the request is not accepted: the key has just changed, the clocks differ by more "
    "than two minutes, or the request was altered; try again"
)


class RequestSigner(Protocol):
    """The part of the herder that knows the session key."""

    def sign_request(self, text: bytes) -> RequestSignature | None: ...

    def verify_request(self, signature: RequestSignature | None) -> None: ...


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """What is signed."""

    method: str
    target: str
    """Path and query, as sent."""
    body: bytes


@dataclass(frozen=True, slots=True)
class ForwardedIdentity:
    """The caller that another worker authenticated, and its address."""

    identity: Identity
    client: str | None
    request_id: str | None


def identity_headers(
    signer: RequestSigner,
    request: ForwardedRequest,
    identity: Identity,
    client: str | None,
    request_id: str | None,
    clock: Callable[[], float] = time.time,
) -> dict[str, str]:
    """Returns the headers that carry an identity; none if the group has no session key."""
    members = {**identity.as_json(), "client": client, "request_id": request_id, "at": clock()}
    encoded = base64.b64encode(json.dumps(members).encode()).decode()
    signature = signer.sign_request(_signed_text(request, encoded))
    if signature is None or signature.signature is None or signature.algorithm is None:
        return {}
    return {
        IDENTITY_HEADER: encoded,
        SIGNATURE_HEADER: signature.signature,
        ALGORITHM_HEADER: signature.algorithm,
    }


def verify_identity(
    signer: RequestSigner, request: ForwardedRequest, headers: Mapping[str, str], clock: Callable[[], float] = time.time
) -> ForwardedIdentity:
    """Returns the identity that the headers of a forwarded request carry. Raises IllegalStateError (409) unless a worker of this
    cluster has signed exactly this request a moment ago."""
    encoded = headers.get(IDENTITY_HEADER) or ""
    signature = RequestSignature(_signed_text(request, encoded), headers.get(SIGNATURE_HEADER), headers.get(ALGORITHM_HEADER))
    try:
        signer.verify_request(signature)
        members: Any = json.loads(base64.b64decode(encoded, validate=True))
        age_s = clock() - float(members["at"])
        identity = Identity.from_json(members)
    except (ConnectError, binascii.Error, ValueError, KeyError, TypeError) as e:
        raise IllegalStateError(_REJECTED) from e
    if abs(age_s) > _MAX_AGE_S:
        raise IllegalStateError(_REJECTED)
    return ForwardedIdentity(identity, members.get("client"), members.get("request_id"))


def _signed_text(request: ForwardedRequest, encoded: str) -> bytes:
    digest = hashlib.sha256(request.body).hexdigest()
    return _PREFIX + "\n".join((request.method, request.target, digest, encoded)).encode()
