"""What is in a key store, whatever its format."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class StoreContents:
    """All of it DER."""

    key: bytes | None = field(default=None, repr=False)
    """The first private key, PKCS8."""
    chain: list[bytes] = field(default_factory=list)
    """That key's certificates, its own first."""
    trusted: list[bytes] = field(default_factory=list)
    """Certificates that stand alone."""
    is_locked: bool = False
    """Whether there is a key that nobody gave a password for."""
