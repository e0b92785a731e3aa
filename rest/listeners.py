"""Where REST listens: sockets that are bound before anything else starts, and the address that others use."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, UnreachableError
from worker.config import split_listener

DEFAULT_LISTENERS = ("http://:8083",)
_BACKLOG = 2048
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The worker's keys ``listeners`` and ``rest.advertised.*``, typed."""

    listeners: Sequence[str] = DEFAULT_LISTENERS
    advertised_host: str | None = None
    advertised_port: int | None = None


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its socket; ``port`` is the real one, also when 0 was asked for."""

    host: str
    port: int
    sock: socket.socket

    @property
    def everywhere(self) -> bool:
        return self.host in _EVERYWHERE


def bind_listeners(listeners: Sequence[str]) -> list[BoundListener]:
    """Binds every listener. Raises ConfigError for text that is none, UnreachableError for an address that cannot be had.

    On an error the sockets that were bound before it are closed. Connections that come before the server runs wait in the
    backlog.
    """
    if not listeners:
        raise ConfigError.invalid("listeners", "", f"expected at least one, as {DEFAULT_LISTENERS[0]}")
    with contextlib.ExitStack() as undo:
        bound = []
        for listener in listeners:
            found = _bind(listener)
            undo.callback(found.sock.close)
            bound.append(found)
        undo.pop_all()
        return bound


def _bind(listener: str) -> BoundListener:
    scheme, host, port = split_listener(listener)
    if scheme != "http":
        raise ConfigError.invalid("listeners", listener, "expected http://host:port; this worker has no TLS listeners")
    try:
        sock = _open_socket(host, port)
    except OSError as e:
        raise UnreachableError(f"Cannot listen on {listener}: {_reason(e, port)}") from e
    # asyncio sets this only on sockets that were made with the protocol's number; without it every second answer on a
    # connection waits 40 ms for the client's acknowledgement.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return BoundListener(host, sock.getsockname()[1], sock)


def _open_socket(host: str, port: int) -> socket.socket:
    if host == "" and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        except OSError as e:
            if e.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise  # the kernel knows IPv6 but this machine has none: go on with IPv4
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _reason(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use. Stop what uses it, or set another port in the worker's key listeners"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this process has"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; leave the host empty to listen on all"
    return error.strerror or str(error)


def advertised_address(settings: ListenSettings, first: BoundListener) -> tuple[str, int]:
    """Host and port under which others reach this worker: what is advertised, else the first listener's own."""
    host = settings.advertised_host or (local_address() if first.everywhere else first.host)
    return host, settings.advertised_port or first.port


def local_address() -> str:
    """The address of this machine's way out. Asks the routing table only: no name service that could hang, no packet sent."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address for documentation (RFC 5737)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def format_host(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host
