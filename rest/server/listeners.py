"""Listeners of the REST server, bound before anything else starts, and the address advertised to other workers."""

from __future__ import annotations

import contextlib
import errno
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from connect.errors import ConfigError, UnreachableError
from rest.server.tls import ReloadingContext, TlsSettings
from worker.config.worker_config import split_listener

DEFAULT_LISTENERS = ("http://:8083",)
_BACKLOG = 2048
_WILDCARD_HOSTS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """Typed values of ``listeners``, ``admin.listeners``, ``rest.advertised.*``, and ``ssl.*``."""

    listeners: Sequence[str] = DEFAULT_LISTENERS
    advertised_host: str | None = None
    advertised_port: int | None = None
    advertised_scheme: str | None = None
    """None: http if any listener is http."""
    admin_listeners: Sequence[str] | None = None
    """None: all listeners serve /admin; empty: none does."""
    tls: TlsSettings | None = None
    """For https listeners; None if there are none."""
    admin_tls: TlsSettings | None = None


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its socket; ``port`` is the actual port even if 0 was requested."""

    scheme: str
    host: str
    port: int
    sock: socket.socket
    tls: ReloadingContext | None = None
    admin: bool = False
    """Whether it serves /admin only."""

    @property
    def is_wildcard(self) -> bool:
        """Whether it listens on all addresses."""
        return self.host in _WILDCARD_HOSTS

    @property
    def url(self) -> str:
        return f"{self.scheme}://{format_host(self.host)}:{self.port}"


def bind_listeners(settings: ListenSettings) -> list[BoundListener]:
    """Binds every listener, admin listeners last. Raises ConfigError for invalid listeners or TLS settings, UnreachableError for
    an address that cannot be bound.

    After an error, no socket stays open. Connections that arrive before the server runs wait in the backlog.
    """
    if not settings.listeners:
        raise ConfigError.invalid("listeners", "", f"expected at least one, such as {DEFAULT_LISTENERS[0]}")
    wanted = [
        *((listener, "listeners", settings.tls) for listener in settings.listeners),
        *((listener, "admin.listeners", settings.admin_tls) for listener in settings.admin_listeners or ()),
    ]
    with contextlib.ExitStack() as undo:
        bound = []
        for listener, key, tls in wanted:
            found = _bind(listener, key, tls)
            undo.callback(found.sock.close)
            bound.append(found)
        undo.pop_all()
        return bound


def _bind(listener: str, key: str, tls: TlsSettings | None) -> BoundListener:
    scheme, host, port = split_listener(listener, key)
    context = None
    if scheme == "https":
        context = ReloadingContext(tls or TlsSettings.from_properties({}))
    try:
        sock = _open_socket(host, port)
    except OSError as e:
        raise UnreachableError(f"Cannot listen on {listener}: {_reason(e, port, key)}") from e
    # asyncio sets this only on sockets created with the protocol number; without it, every second response on a connection waits
    # 40 ms for the client's acknowledgment.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return BoundListener(scheme, host, sock.getsockname()[1], sock, context, key == "admin.listeners")


def _open_socket(host: str, port: int) -> socket.socket:
    if host == "" and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        except OSError as e:
            if e.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise  # the kernel supports IPv6 but the machine has no address: use IPv4
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _reason(error: OSError, port: int, key: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use. Stop the process that uses it, or set another port with {key}"
    if error.errno == errno.EACCES:
        return f"this process is not permitted to use port {port}"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; leave the host empty to listen on all addresses"
    return error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class AdvertisedAddress:
    """The address at which others reach this worker."""

    scheme: str
    host: str
    port: int

    @property
    def worker_id(self) -> str:
        return f"{format_host(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """With a trailing slash, like member URLs."""
        return f"{self.scheme}://{self.worker_id}/"


def advertised_address(settings: ListenSettings, bound: Sequence[BoundListener]) -> AdvertisedAddress:
    """Returns the advertised address. Defaults come from the first listener of the scheme; http is preferred to https."""
    public = [listener for listener in bound if not listener.admin]
    schemes = [listener.scheme for listener in public]
    scheme = settings.advertised_scheme or ("http" if "http" in schemes else "https")
    # A proxy may terminate https for a worker without an https listener.
    first = next((listener for listener in public if listener.scheme == scheme), public[0])
    host = settings.advertised_host or (local_address() if first.is_wildcard else first.host)
    return AdvertisedAddress(scheme, host, settings.advertised_port or first.port)


def local_address() -> str:
    """Returns this machine's outbound address from the routing table: no name lookup that could hang, no packet sent."""
    with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # reserved for documentation (RFC 5737)
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def format_host(host: str) -> str:
    """Returns the host in URL form."""
    return f"[{host}]" if ":" in host else host
