"""What one request may do and see. Handlers ask :func:`access_of` where the path alone does not decide."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from starlette.requests import Request

from connect.errors import ForbiddenError
from rest.security.identity import ANONYMOUS, Identity, Role

SCOPE_KEY = "sluice.access"
"""Where the ASGI scope has the request's :class:`Access`."""

_ALL = "*"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role for connectors whose names match any of the patterns (``*``, ``?``, ``[...]``)."""

    role: Role
    connectors: tuple[str, ...] = (_ALL,)

    def covers(self, connector: str) -> bool:
        return self.covers_all or any(fnmatchcase(connector, pattern) for pattern in self.connectors)

    @property
    def covers_all(self) -> bool:
        return _ALL in self.connectors


class Access:
    """The rights of a request's caller. ``connector`` is the one that the request concerns, for the audit log."""

    __slots__ = ("_grants", "_masks_always", "connector", "identity")

    def __init__(self, identity: Identity, grants: Sequence[Grant], *, masks_always: bool = False) -> None:
        self.identity = identity
        self._grants = grants
        self._masks_always = masks_always
        self.connector: str | None = None

    @property
    def grants(self) -> Sequence[Grant]:
        return self._grants

    def allows(self, role: Role, connector: str) -> bool:
        """Returns whether the caller has the role, or a higher one, for a connector."""
        return any(grant.role >= role and grant.covers(connector) for grant in self._grants)

    def allows_any(self, role: Role) -> bool:
        """Returns whether the caller has the role for any connector, which need not exist."""
        return any(grant.role >= role for grant in self._grants)

    def allows_all(self, role: Role) -> bool:
        """Returns whether the caller has the role for all connectors, and so for the worker."""
        return any(grant.role >= role and grant.covers_all for grant in self._grants)

    def require(self, role: Role, connector: str) -> None:
        """Raises ForbiddenError without the role for a connector."""
        self.connector = connector
        if not self.allows(role, connector):
            raise ForbiddenError(missing_role(self.identity, role, f"connector {connector}"))

    def visible(self, connectors: Iterable[str]) -> list[str]:
        """Returns the connectors that the caller may view."""
        if self.allows_all(Role.VIEWER):
            return list(connectors)
        return [name for name in connectors if self.allows(Role.VIEWER, name)]

    def sees_secrets(self, connector: str) -> bool:
        """Returns whether configurations of a connector are shown as they are stored."""
        return not self._masks_always and self.allows(Role.ADMIN, connector)

    def sees_all_secrets(self) -> bool:
        """Returns whether the configurations of all connectors are shown as they are stored."""
        return not self._masks_always and self.allows_all(Role.ADMIN)


def missing_role(identity: Identity, role: Role, of: str) -> str:
    """Returns the message for a request that the caller's roles do not allow."""
    return f"{identity.subject} does not have the role {role.name.lower()} for {of}; see rest.authorization.roles.file"


ADMIN_OF_ALL = (Grant(Role.ADMIN),)
"""The grants of every caller without a roles file."""


def access_of(request: Request) -> Access:
    """Returns the access of a request; everything is allowed on a worker without authentication."""
    found = request.scope.get(SCOPE_KEY)
    return found if isinstance(found, Access) else Access(ANONYMOUS, ADMIN_OF_ALL)
