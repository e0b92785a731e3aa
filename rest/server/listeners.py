"""Where REST listens: sockets that are bound before anything else starts, and the address that others use."""

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
_EVERYWHERE = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class ListenSettings:
    """The worker's keys ``listeners``, ``admin.listeners``, ``rest.advertised.*`` and ``ssl.*``, typed."""

    listeners: Sequence[str] = DEFAULT_LISTENERS
    advertised_host: str | None = None
    advertised_port: int | None = None
    advertised_scheme: str | None = None
    """None: http where one of the listeners is."""
    admin_listeners: Sequence[str] | None = None
    """None: /admin is on all listeners; empty: nowhere."""
    tls: TlsSettings | None = None
    """For https; None where no listener has it."""
    admin_tls: TlsSettings | None = None


@dataclass(frozen=True, slots=True)
class BoundListener:
    """A listener with its socket; ``port`` is the real one, also when 0 was asked for."""

    scheme: str
    host: str
    port: int
    sock: socket.socket
    tls: ReloadingContext | None = None
    admin: bool = False
    """Whether it is for /admin alone."""

    @property
    def everywhere(self) -> bool:
        return self.host in _EVERYWHERE

    @property
    def url(self) -> str:
        return f"{self.scheme}://{format_host(self.host)}:{self.port}"


def bind_listeners(settings: ListenSettings) -> list[BoundListener]:
    """Binds every listener, those of /admin last. Raises ConfigError for text that is none and for TLS settings that are wrong,
    UnreachableError for an address that cannot be had.

    On an error the sockets that were bound before it are closed. Connections that come before the server runs wait in the
    backlog.
    """
    if not settings.listeners:
        raise ConfigError.invalid("listeners", "", f"expected at least one, as {DEFAULT_LISTENERS[0]}")
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
        context = ReloadingContext(tls or TlsSettings.of({}))
    try:
        sock = _open_socket(host, port)
    except OSError as e:
        raise UnreachableError(f"Cannot listen on {listener}: {_reason(e, port, key)}") from e
    # asyncio sets this only on sockets that were made with the protocol's number; without it every second answer on a
    # connection waits 40 ms for the client's acknowledgement.
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return BoundListener(scheme, host, sock.getsockname()[1], sock, context, key == "admin.listeners")


def _open_socket(host: str, port: int) -> socket.socket:
    if host == "" and socket.has_dualstack_ipv6():
        try:
            return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=_BACKLOG)
        except OSError as e:
            if e.errno not in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                raise  # the kernel knows IPv6 but this machine has none: go on with IPv4
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=_BACKLOG)


def _reason(error: OSError, port: int, key: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} is in use. Stop what uses it, or set another port in the worker's key {key}"
    if error.errno == errno.EACCES:
        return f"port {port} needs more rights than this process has"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return "this machine has no such address; leave the host empty to listen on all"
    return error.strerror or str(error)


@dataclass(frozen=True, slots=True)
class AdvertisedAddress:
    """How others reach this worker."""

    scheme: str
    host: str
    port: int

    @property
    def worker_id(self) -> str:
        return f"{format_host(self.host)}:{self.port}"

    @property
    def url(self) -> str:
        """With a slash at its end, as member URLs have."""
        return f"{self.scheme}://{self.worker_id}/"


def advertised_address(settings: ListenSettings, bound: Sequence[BoundListener]) -> AdvertisedAddress:
    """What is advertised, and where nothing is set the first listener of that scheme; http comes before https."""
    public = [listener for listener in bound if not listener.admin]
    schemes = [listener.scheme for listener in public]
    scheme = settings.advertised_scheme or ("http" if "http" in schemes else "https")
    # A proxy in front may speak https for a worker that does not.
    first = next((listener for listener in public if listener.scheme == scheme), public[0])
    host = settings.advertised_host or (local_address() if first.everywhere else first.host)
    return AdvertisedAddress(scheme, host, settings.advertised_port or first.port)


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
