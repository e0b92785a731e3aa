"""Who sends a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from connect.errors import ConnectError


class AuthenticationError(ConnectError):
    """The credentials of a request are missing or wrong: 401. The message never contains them."""


class Role(IntEnum):
    """What a caller may do. Each role includes those before it."""

    VIEWER = 1
    """Read states, offsets, and configurations without secrets."""
    OPERATOR = 2
    """Pause, resume, stop, restart, and signal connectors."""
    ADMIN = 3
    """Everything: configurations with their secrets, offsets, deletion."""

    @classmethod
    def of(cls, name: str) -> Role:
        """Returns the role of that name. Raises KeyError."""
        return cls[name.upper()]


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller."""

    subject: str
    method: str
    """How the caller was authenticated: ``basic``, ``bearer``, ``oidc``, ``extension``, or ``anonymous``."""
    groups: frozenset[str] = frozenset()
    claims: Mapping[str, str] = field(default_factory=dict)
    """Claims of the provider's token with simple values, as text."""
    expires_at_s: float | None = None
    """When the credentials expire, in seconds since 1970; None for never."""
    is_ambient: bool = False
    """Whether browsers send these credentials by themselves, even for pages of others."""

    def as_json(self) -> dict[str, Any]:
        """Returns the members that another worker or a session cookie needs."""
        return {
            "subject": self.subject,
            "method": self.method,
            "groups": sorted(self.groups),
            "claims": dict(self.claims),
            "expires": self.expires_at_s,
        }

    @classmethod
    def from_json(cls, members: Mapping[str, Any], *, is_ambient: bool = False) -> Identity:
        """Reverses :meth:`as_json`. Raises KeyError, TypeError, or ValueError for anything else."""
        expires = members["expires"]
        return cls(
            str(members["subject"]),
            str(members["method"]),
            frozenset(str(group) for group in members["groups"]),
            {str(name): str(value) for name, value in dict(members["claims"]).items()},
            None if expires is None else float(expires),
            is_ambient,
        )


ANONYMOUS = Identity("anonymous", "anonymous", is_ambient=True)
