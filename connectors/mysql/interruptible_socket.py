"""A socket for PyMySQL whose waits end at a deadline, and when the task stops."""

from __future__ import annotations

import contextlib
import io
import math
import os
import select
import socket
import ssl
import threading
import time
from typing import Any, Final

from connect.addresses import address_rules
from connectors.cdc.errors import WaitInterrupted
from connectors.cdc.interrupt import Interrupt

_BUFFER_BYTES: Final = 1 << 16


class DeadlinePassed(Exception):
    """A wait ended at its deadline. Never leaves the package; no OSError, which PyMySQL would translate."""


class InterruptibleSocket:
    """The part of a socket that PyMySQL uses. Not thread-safe.

    ``deadline`` (``time.monotonic``) applies to every wait. Waits raise DeadlinePassed, WaitInterrupted, or OSError.
    """

    def __init__(self, link: socket.socket, interrupt: Interrupt) -> None:
        """Takes the socket over."""
        link.setblocking(False)
        self.deadline = math.inf
        self.interrupt = interrupt
        self._link = link
        self._poll = select.poll()
        self._poll.register(interrupt.fileno(), select.POLLIN)
        self._poll.register(link.fileno(), select.POLLIN)
        self._number = link.fileno()

    def wait(self, deadline: float, *, write: bool = False) -> bool:
        """Waits until the socket is ready; returns False after the deadline. Raises WaitInterrupted."""
        if self.interrupt.is_set:
            raise WaitInterrupted
        self._poll.modify(self._number, select.POLLIN | select.POLLOUT if write else select.POLLIN)
        ready = self._poll.poll(_remaining_ms(deadline))
        if self.interrupt.is_set:
            raise WaitInterrupted
        return bool(ready)

    def fileno(self) -> int:
        """What can be polled."""
        return self._number

    def _require(self, *, write: bool) -> None:
        if not self.wait(self.deadline, write=write):
            raise DeadlinePassed

    def recv_available(self, buffer: memoryview | bytearray) -> int:
        """Receives without waiting; returns -1 if there is nothing yet, and 0 at the end."""
        try:
            return self._link.recv_into(buffer)
        except (BlockingIOError, ssl.SSLWantReadError):
            return -1
        except ssl.SSLZeroReturnError:
            return 0

    def recv_into(self, buffer: memoryview | bytearray) -> int:
        while (count := self.recv_available(buffer)) < 0:
            self._require(write=False)
        return count

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[self._link.send(view) :]
            except (BlockingIOError, ssl.SSLWantWriteError):
                self._require(write=True)
            except ssl.SSLWantReadError:
                self._require(write=False)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_SocketReader(self), _BUFFER_BYTES)

    def settimeout(self, seconds: float | None) -> None:
        """Does nothing: ``deadline`` counts."""

    def start_tls(self, context: ssl.SSLContext, server_hostname: str | None) -> InterruptibleSocket:
        """Starts TLS; returns the encrypted socket, which takes this one over."""
        encrypted = context.wrap_socket(self._link, server_hostname=server_hostname, do_handshake_on_connect=False)
        result = InterruptibleSocket(encrypted, self.interrupt)
        result.deadline = self.deadline
        try:
            while True:
                try:
                    encrypted.do_handshake()
                    return result
                except ssl.SSLWantReadError:
                    result._require(write=False)
                except ssl.SSLWantWriteError:
                    result._require(write=True)
        except BaseException:
            result.close()
            raise

    @property
    def tls_version(self) -> str | None:
        """The version of TLS; None without TLS."""
        return self._link.version() if isinstance(self._link, ssl.SSLSocket) else None

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._link.close()


class TlsContext:
    """What PyMySQL takes for a TLS context: it starts TLS on an :class:`InterruptibleSocket`."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._context = context

    def wrap_socket(self, link: InterruptibleSocket, server_hostname: str | None = None) -> InterruptibleSocket:
        return link.start_tls(self._context, server_hostname)


class _SocketReader(io.RawIOBase):
    def __init__(self, link: InterruptibleSocket) -> None:
        self._link = link

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._link.recv_into(buffer)


def resolve_host(host: str, port: int, deadline: float, interrupt: Interrupt) -> list[str]:
    """Returns the allowed addresses of a host. Raises DeadlinePassed, WaitInterrupted, and the errors of
    :meth:`AddressRules.resolve`."""
    answered = Interrupt()
    found: list[list[str] | Exception] = []

    def resolve() -> None:
        try:
            found.append(address_rules().resolve(host, port))
        except Exception as e:
            found.append(e)
        answered.set()

    # The system's resolver cannot be interrupted: an abandoned thread ends at the resolver's own timeout.
    thread = threading.Thread(target=resolve, name="mysql-resolve", daemon=True)
    thread.start()
    try:
        poll = select.poll()
        poll.register(interrupt.fileno(), select.POLLIN)
        poll.register(answered.fileno(), select.POLLIN)
        poll.poll(_remaining_ms(deadline))
        if interrupt.is_set:
            raise WaitInterrupted
        if not found:
            raise DeadlinePassed
        thread.join()
    finally:
        answered.close()
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


def open_socket(
    addresses: list[str], port: int, deadline: float, interrupt: Interrupt, *, keep_alive: bool
) -> InterruptibleSocket:
    """Connects to the first address that answers. The addresses share the time until the deadline.

    Raises the OSError of the last address, DeadlinePassed, or WaitInterrupted.
    """
    error: OSError | None = None
    for number, address in enumerate(addresses):
        now = time.monotonic()
        share = now + (deadline - now) / (len(addresses) - number)
        try:
            result = _open_address(address, port, share, interrupt, keep_alive=keep_alive)
            result.deadline = deadline
            return result
        except OSError as e:
            error = e
        except DeadlinePassed:
            error = TimeoutError(f"{address} does not answer")
            if number == len(addresses) - 1:
                raise
    assert error is not None
    raise error


def _open_address(address: str, port: int, deadline: float, interrupt: Interrupt, *, keep_alive: bool) -> InterruptibleSocket:
    link = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
    try:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if keep_alive:
            _keep_alive(link)
        result = InterruptibleSocket(link, interrupt)
        result.deadline = deadline
        with contextlib.suppress(BlockingIOError):
            link.connect((address, port))
        result._require(write=True)
        if (number := link.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)) != 0:
            raise OSError(number, os.strerror(number))
        return result
    except BaseException:
        link.close()
        raise


def _remaining_ms(deadline: float) -> float | None:
    """The timeout of a poll that ends at a deadline; None for no limit."""
    return None if deadline == math.inf else max(0.0, deadline - time.monotonic()) * 1000


def _keep_alive(link: socket.socket) -> None:
    """Ends a connection on which nothing arrives after a minute without a sign of the server; Linux waits for two hours."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if (option := getattr(socket, name, None)) is not None:
            link.setsockopt(socket.IPPROTO_TCP, option, value)
