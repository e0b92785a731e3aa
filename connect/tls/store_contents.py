"""The contents of a key store, independent of its format."""

from __future__ import annotations

from dataclasses import dataclass, field


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
