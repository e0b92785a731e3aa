"""Which role each route requires: the one table of method and route.

A route without an entry is refused to everyone who is not admin of all connectors, and fails a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rest.security.identity import Role


class Needs(Enum):
    """Where the caller must have the role."""

    CONNECTOR = "connector"
    """For the connector in the path."""
    ANY = "any"
    """For at least one pattern of names; the handler checks or filters by name."""
    WORKER = "worker"
    """For all connectors."""


@dataclass(frozen=True, slots=True)
class Permission:
    """What a route requires. ``role`` is None for routes that everyone may call."""

    role: Role | None
    needs: Needs = Needs.CONNECTOR
    is_signed: bool = False
    """Whether another worker calls it, with a signature that the herder verifies."""


_OPEN = Permission(None)
_SIGNED = Permission(None, is_signed=True)
_VIEW, _OPERATE, _ADMIN = (Permission(role) for role in Role)
_VIEW_ANY, _ADMIN_ANY = Permission(Role.VIEWER, Needs.ANY), Permission(Role.ADMIN, Needs.ANY)
_VIEW_WORKER, _ADMIN_WORKER = Permission(Role.VIEWER, Needs.WORKER), Permission(Role.ADMIN, Needs.WORKER)

_CONNECTOR = "/connectors/{connector}"
_SLUICE = "/sluice/connectors/{connector}"

PERMISSIONS: dict[tuple[str, str], Permission] = {
    ("GET", "/"): _VIEW_ANY,
    ("GET", "/health"): _VIEW_ANY,
    ("GET", "/health/live"): _VIEW_ANY,
    ("GET", "/health/ready"): _VIEW_ANY,
    ("GET", "/metrics"): _VIEW_WORKER,
    ("GET", "/openapi.json"): _VIEW_ANY,
    ("GET", "/connectors"): _VIEW_ANY,
    ("POST", "/connectors"): _ADMIN_ANY,
    ("GET", _CONNECTOR): _VIEW,
    ("DELETE", _CONNECTOR): _ADMIN,
    ("GET", f"{_CONNECTOR}/config"): _VIEW,
    ("PUT", f"{_CONNECTOR}/config"): _ADMIN,
    ("PATCH", f"{_CONNECTOR}/config"): _ADMIN,
    ("GET", f"{_CONNECTOR}/status"): _VIEW,
    ("PUT", f"{_CONNECTOR}/pause"): _OPERATE,
    ("PUT", f"{_CONNECTOR}/resume"): _OPERATE,
    ("PUT", f"{_CONNECTOR}/stop"): _OPERATE,
    ("POST", f"{_CONNECTOR}/restart"): _OPERATE,
    ("GET", f"{_CONNECTOR}/offsets"): _VIEW,
    ("PATCH", f"{_CONNECTOR}/offsets"): _ADMIN,
    ("DELETE", f"{_CONNECTOR}/offsets"): _ADMIN,
    ("GET", f"{_CONNECTOR}/topics"): _VIEW,
    ("PUT", f"{_CONNECTOR}/topics/reset"): _OPERATE,
    ("GET", f"{_CONNECTOR}/tasks"): _VIEW,
    ("POST", f"{_CONNECTOR}/tasks"): _SIGNED,
    ("PUT", f"{_CONNECTOR}/fence"): _SIGNED,
    ("PUT", f"{_SLUICE}/reload-turn"): _SIGNED,
    ("GET", f"{_CONNECTOR}/tasks/{{task}}/status"): _VIEW,
    ("POST", f"{_CONNECTOR}/tasks/{{task}}/restart"): _OPERATE,
    ("GET", "/connector-plugins"): _VIEW_ANY,
    ("GET", "/connector-plugins/{plugin}/config"): _VIEW_ANY,
    # Validation runs code that the configuration names, as creating the connector would.
    ("PUT", "/connector-plugins/{plugin}/config/validate"): _ADMIN_ANY,
    ("GET", "/admin/loggers"): _VIEW_ANY,
    ("GET", "/admin/loggers/{logger}"): _VIEW_ANY,
    ("PUT", "/admin/loggers/{logger}"): _ADMIN_WORKER,
    # Previews run code that the configuration names, and may read topics.
    ("POST", "/sluice/preview"): _ADMIN_ANY,
    # Connect where the configuration says, with secrets that it has or that are kept.
    ("POST", "/sluice/connection-test"): _ADMIN_ANY,
    ("POST", "/sluice/data-collections"): _ADMIN_ANY,
    # Tests a configuration that is in use, which only admins can change.
    ("POST", f"{_SLUICE}/connection-test"): _OPERATE,
    ("GET", "/sluice/connector-plugins/{plugin}/external-system"): _VIEW_ANY,
    ("GET", "/sluice/progress"): _VIEW_ANY,
    ("GET", f"{_SLUICE}/progress"): _VIEW,
    ("GET", f"{_SLUICE}/logs"): _VIEW,
    # Dead letters are data of the topics.
    ("GET", f"{_SLUICE}/dead-letters"): _OPERATE,
    ("GET", f"{_SLUICE}/dead-letters/causes"): _OPERATE,
    ("POST", f"{_SLUICE}/dead-letters/replay"): _OPERATE,
    ("GET", "/sluice/diagnosis"): _VIEW_ANY,
    ("GET", f"{_SLUICE}/diagnosis"): _VIEW,
    ("POST", f"{_SLUICE}/signals"): _OPERATE,
    ("GET", f"{_SLUICE}/verification"): _VIEW,
    ("POST", f"{_SLUICE}/verification"): _OPERATE,
    ("GET", f"{_SLUICE}/history"): _VIEW,
    ("GET", f"{_SLUICE}/history/{{version}}"): _VIEW,
    ("POST", f"{_SLUICE}/rollback"): _ADMIN,
    ("GET", "/sluice/connectors-dir"): _VIEW_ANY,
    ("GET", "/sluice/auth/session"): _OPEN,
    ("POST", "/sluice/auth/session"): _VIEW_ANY,
    ("DELETE", "/sluice/auth/session"): _OPEN,
    ("GET", "/sluice/auth/login"): _OPEN,
    ("GET", "/sluice/auth/callback"): _OPEN,
}


def permission_of(method: str, route: str) -> Permission:
    """Returns what a request of a route requires."""
    return PERMISSIONS.get((method, route), _ADMIN_WORKER)
