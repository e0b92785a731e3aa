"""HTTP connections to addresses that the worker allows (``connection.deny.addresses``)."""

from __future__ import annotations

from typing import Any

import httpcore2

from connect.addresses import address_rules


class AllowedAddressBackend(httpcore2.NetworkBackend):
    """Resolves names itself, and connects to the addresses that the rules allow. TLS still verifies the name."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def connect_tcp(self, host: str, port: int, *arguments: Any, **keywords: Any) -> Any:
        """Raises ConfigError if no address of the host is allowed."""
        try:
            addresses = address_rules().resolve(host, port)
        except OSError as e:
            raise httpcore2.ConnectError(str(e)) from e
        for address in addresses[:-1]:
            try:
                return self._inner.connect_tcp(address, port, *arguments, **keywords)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout):
                continue
        return self._inner.connect_tcp(addresses[-1], port, *arguments, **keywords)

    def connect_unix_socket(self, *arguments: Any, **keywords: Any) -> Any:
        return self._inner.connect_unix_socket(*arguments, **keywords)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


def check_addresses(session: Any) -> None:
    """Makes an ``httpx2.Client`` connect only to allowed addresses, also those of proxies. It follows no redirects."""
    # httpx2 has no public way to pass a network backend to its transport.
    for transport in (session._transport, *session._mounts.values()):
        if transport is not None:
            transport._pool._network_backend = AllowedAddressBackend(transport._pool._network_backend)
