"""Which hosts connectors may connect to: the worker keys ``connection.allow.addresses`` and ``connection.deny.addresses``.

A connector names hosts in its configuration, and whoever may validate a configuration chooses them. The addresses behind a name
are checked after it was resolved, and the connection goes to a checked address, so that a name server that changes its answer
in between (DNS rebinding) changes nothing.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from connect.errors import ConfigError

ALLOW_KEY, DENY_KEY = "connection.allow.addresses", "connection.deny.addresses"
ALLOW_DEFAULT = "*"
DENY_DEFAULT = (
    "169.254.0.0/16,fe80::/10,fd00:ec2::254,fd20:ce::254,100.100.100.200,168.63.129.16,metadata.google.internal,metadata.goog"
)
"""Link-local addresses, and the metadata services of clouds with other addresses."""

_NAT64 = IPv6Network("64:ff9b::/96")
_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class _Entries:
    networks: tuple[_Network, ...]
    names: tuple[str, ...]
    """Patterns for host names, in lower case."""

    @classmethod
    def of(cls, key: str, texts: Iterable[str]) -> _Entries:
        networks: list[_Network] = []
        names: list[str] = []
        for text in texts:
            entry = text.strip().lower().strip("[]")
            try:
                networks.append(ip_network(entry, strict=False))
            except ValueError as e:
                if "/" in entry or ":" in entry or not entry:
                    expected = "expected an address such as 10.0.0.7, a network such as 10.0.0.0/8, or a host name with * and ?"
                    raise ConfigError.invalid(key, text, expected) from e
                names.append(entry.rstrip("."))
        return cls(tuple(networks), tuple(names))

    def match(self, host: str, addresses: Iterable[_Address]) -> bool:
        if any(fnmatchcase(host, pattern) for pattern in self.names):
            return True
        return any(address in network for address in addresses for network in self.networks if address.version == network.version)


@dataclass(frozen=True, slots=True)
class AddressRules:
    """Allows an address if it, or the host name, matches ``allow``, and neither matches ``deny``."""

    allow: _Entries
    deny: _Entries

    @classmethod
    def of(cls, allow: Iterable[str], deny: Iterable[str]) -> AddressRules:
        """Parses the values of the two keys. Raises ConfigError for an entry that is neither a network nor a name."""
        return cls(_Entries.of(ALLOW_KEY, allow), _Entries.of(DENY_KEY, deny))

    def allows(self, host: str, address: str) -> bool:
        """Returns whether connections to this address of a host are allowed. Does not resolve anything."""
        name, forms = host.lower().rstrip("."), _forms_of(address)
        return self.allow.match(name, forms) and not self.deny.match(name, forms)

    def resolve(self, host: str, port: int | None = None) -> list[str]:
        """Returns the addresses of a host that are allowed, without duplicates and in the resolver's order. Blocks.

        Raises OSError if the name cannot be resolved, and ConfigError if no address is allowed.
        """
        try:
            found = socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)
        except UnicodeError as e:  # an empty label, or one that is too long
            raise OSError(f"{host} is not a host name") from e
        addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
        allowed = [address for address in addresses if self.allows(host, address)]
        if not allowed:
            raise refusal(host, addresses)
        return allowed

    def require(self, host: str) -> None:
        """Raises ConfigError if a host resolves to no allowed address, for clients that connect by name.

        A name that cannot be resolved passes: the client reports that itself.
        """
        try:
            self.resolve(host)
        except OSError:
            return

    def open_socket(
        self, host: str, port: int, timeout_s: float | None, source_address: tuple[str, int] | None = None
    ) -> socket.socket:
        """Connects to the first allowed address that answers. Raises ConfigError, or the OSError of the last address."""
        error: OSError | None = None
        for address in self.resolve(host, port):
            try:
                return socket.create_connection((address, port), timeout_s, source_address)
            except OSError as e:
                error = e
        assert error is not None
        raise error


def refusal(host: str, addresses: Iterable[str]) -> ConfigError:
    """Builds the error for a host whose addresses are not allowed."""
    others = [address for address in addresses if address != host]
    shown = f"{host} ({', '.join(others)})" if others else host
    return ConfigError(
        f"Connections to {shown} are not allowed on this worker: choose another host, or change {DENY_KEY} or {ALLOW_KEY} in the "
        "worker's configuration"
    )


def _forms_of(address: str) -> list[_Address]:
    """Returns an address, and the IPv4 address that an IPv6 address stands for."""
    parsed = ip_address(address.partition("%")[0])
    if isinstance(parsed, IPv4Address):
        return [parsed]
    inner = parsed.ipv4_mapped or parsed.sixtofour
    if inner is None and parsed in _NAT64:
        inner = IPv4Address(int(parsed) & 0xFFFFFFFF)
    return [parsed] if inner is None else [parsed, inner]


_current = AddressRules.of(ALLOW_DEFAULT.split(","), DENY_DEFAULT.split(","))


def install_address_rules(rules: AddressRules) -> None:
    """Sets the rules of this process. Called once, before connectors run in it."""
    global _current
    _current = rules


def address_rules() -> AddressRules:
    """Returns the rules of this process: those of its worker, or the defaults."""
    return _current
