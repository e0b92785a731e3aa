"""The roles file: who has which role for which connectors.

    bindings:
      - role: admin
        groups: [platform]
      - role: operator
        users: [alice, "oidc:bob"]
        connectors: ["shop-*"]
      - role: viewer
        claims: {department: [data, finance]}

A binding applies to a caller who is among its users, is in one of its groups, or has one of its claims. A user may be qualified
by the method of authentication, as in ``oidc:bob``; ``*`` is everyone who is authenticated. Without ``connectors``, it applies to
all connectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError
from connect.suggestions import did_you_mean
from rest.security.access import Grant
from rest.security.identity import Identity, Role

_MEMBERS = ("role", "users", "groups", "claims", "connectors")


@dataclass(frozen=True, slots=True)
class Binding:
    """One entry of the roles file."""

    grant: Grant
    users: frozenset[str]
    groups: frozenset[str]
    claims: Mapping[str, frozenset[str]]

    def applies_to(self, identity: Identity) -> bool:
        if identity.method == "anonymous":
            return False
        if not self.users.isdisjoint(("*", identity.subject, f"{identity.method}:{identity.subject}")):
            return True
        if not self.groups.isdisjoint(identity.groups):
            return True
        return any(identity.claims.get(name) in values for name, values in self.claims.items())


@dataclass(frozen=True, slots=True)
class Roles:
    """The content of a roles file."""

    bindings: tuple[Binding, ...]

    def grants_of(self, identity: Identity) -> tuple[Grant, ...]:
        return tuple(binding.grant for binding in self.bindings if binding.applies_to(identity))


def parse_roles(text: str) -> Roles:
    """Parses a roles file. Raises ConfigError that names the binding and what was expected."""
    import yaml

    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as e:
        raise ConfigError(f"it is not YAML: {_where(e)}") from e
    if not isinstance(found, dict) or set(found) != {"bindings"} or not isinstance(found["bindings"], list):
        raise ConfigError("expected one member, bindings: a list of entries with role, users, groups, claims, and connectors")
    return Roles(tuple(_parse_binding(f"binding {at}", one) for at, one in enumerate(found["bindings"], 1)))


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or "invalid"
    return str(problem) if mark is None else f"line {mark.line + 1}: {problem}"


def _parse_binding(where: str, found: Any) -> Binding:
    if not isinstance(found, dict):
        raise ConfigError(f"{where} is not an object with role and users, groups, or claims")
    for name in found:
        if name not in _MEMBERS:
            raise ConfigError(f"{where} has the unknown member {name}{did_you_mean(str(name), _MEMBERS, '; ')}")
    try:
        role = Role.of(str(found.get("role")))
    except KeyError:
        names = [role.name.lower() for role in Role]
        near = did_you_mean(str(found.get("role")), names, "; ")
        raise ConfigError(f"{where} has the role {found.get('role')}; expected {', '.join(names)}{near}") from None
    users, groups = frozenset(_texts(where, found, "users")), frozenset(_texts(where, found, "groups"))
    claims = {name: frozenset(values) for name, values in _claims(where, found)}
    if not users and not groups and not claims:
        raise ConfigError(f"{where} applies to nobody: set users, groups, or claims")
    connectors = tuple(_texts(where, found, "connectors")) if "connectors" in found else ("*",)
    if not connectors:
        raise ConfigError(f"{where} has no pattern in connectors; leave it out for all connectors")
    return Binding(Grant(role, connectors), users, groups, claims)


def _texts(where: str, found: Mapping[str, Any], name: str) -> list[str]:
    value = found.get(name) or []
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) and one for one in listed):
        raise ConfigError(f"{where}: {name} is not a list of texts; put names that look like numbers in quotes")
    return listed


def _claims(where: str, found: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    claims = found.get("claims") or {}
    if not isinstance(claims, dict):
        raise ConfigError(f"{where}: claims is not an object of names and values")
    for name in claims:
        yield str(name), _texts(f"{where}, claims", claims, name)
