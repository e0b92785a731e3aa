"""The HTTP server: uvicorn on a thread and event loop of its own, beside the worker's threads.

Bind first, then build the worker, then serve: a port that is taken is found before any connector starts, and the worker
knows its own address.

    server = RestServer.bind(ListenSettings(("http://:8083",)))
    herder = StandaloneHerder(config, worker_id=server.worker_id)
    server.start(herder)
    ...
    server.stop()

``RestServer.of_worker(config)`` binds as a worker's properties say.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import uvicorn
from starlette.types import ASGIApp

from connect.errors import IllegalStateError
from rest.server.listeners import BoundListener, ListenSettings, advertised_address, bind_listeners
from rest.server.thread_pools import Lanes
from worker.config.worker_config import WorkerConfig
from worker.herder import Herder
from worker.operations.shutdown import close_all

if TYPE_CHECKING:
    from rest.settings import DoorSettings

log = logging.getLogger(__name__)

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
_EXTENSIONS_S = 2.0
KEEP_ALIVE_S = 30
HANDSHAKE_TIMEOUT_S = 15.0
MAX_CONNECTIONS = 2000
"""Beyond it requests are answered 503 at once."""
_TICK_S = 1.0


class _Server(uvicorn.Server):
    """uvicorn's server over listeners of several kinds. It tells when it serves, ticks once a second instead of ten times, looks
    for new certificates then, and ends at once when told."""

    def __init__(self, listeners: Sequence[tuple[BoundListener, uvicorn.Config]], serving: threading.Event) -> None:
        super().__init__(listeners[0][1])
        self._listeners = listeners
        self._serving = serving
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.servers = [await self._open(listener, config) for listener, config in self._listeners]
        self.started = True

    async def _open(self, listener: BoundListener, config: uvicorn.Config) -> asyncio.Server:
        def protocol() -> asyncio.Protocol:
            from rest.server.connection import Connection

            return Connection(config=config, server_state=self.server_state, app_state=self.lifespan.state)

        loop = asyncio.get_running_loop()
        # A copy of the socket: one server can be closed and another opened on the same address, and no connection is refused.
        sock = listener.sock.dup()
        if listener.tls is None:
            return await loop.create_server(protocol, sock=sock, backlog=config.backlog)
        return await loop.create_server(
            protocol,
            sock=sock,
            backlog=config.backlog,
            ssl=listener.tls.context,
            ssl_handshake_timeout=HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=1.0,
        )

    async def _renew_certificates(self) -> None:
        for i, (listener, config) in enumerate(self._listeners):
            if listener.tls is not None and listener.tls.renewed():
                self.servers[i].close()  # takes no more connections; those that are there go on
                self.servers[i] = await self._open(listener, config)
                log.info("The certificate of %s was read again", listener.url)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        # 0 is the tick at which uvicorn renews the Date header.
        await self.on_tick(0)
        self._serving.set()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_S)
            await self._renew_certificates()

    def end(self) -> None:
        """Ends the loop. From any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)


class RestServer:
    """Owns the listening sockets, the thread ``rest`` and those that handlers run on. Started once, stopped once; ``stop`` may be
    called at any time."""

    def __init__(self, listeners: Sequence[BoundListener], settings: ListenSettings, door: DoorSettings | None = None) -> None:
        self._listeners = list(listeners)
        self._settings = settings
        self._door = door
        self._address = advertised_address(settings, self._listeners)
        self._lanes = Lanes()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._serving = threading.Event()

    @classmethod
    def bind(cls, settings: ListenSettings | None = None, door: DoorSettings | None = None) -> RestServer:
        """Takes the addresses. Raises ConfigError or UnreachableError (see :func:`~rest.server.listeners.bind_listeners`)."""
        settings = settings or ListenSettings()
        return cls(bind_listeners(settings), settings, door)

    @classmethod
    def of_worker(cls, config: WorkerConfig) -> RestServer:
        """As :meth:`bind`, with the settings of a worker's properties; loads its REST extensions."""
        from rest.settings import door_settings, listen_settings

        return cls.bind(listen_settings(config), door_settings(config))

    @property
    def worker_id(self) -> str:
        """``host:port`` as advertised."""
        return self._address.worker_id

    @property
    def url(self) -> str:
        """The advertised address as a URL, with a slash at its end as member URLs have."""
        return self._address.url

    @property
    def ports(self) -> list[int]:
        """The real port of every listener of ``listeners``, in their order."""
        return [listener.port for listener in self._listeners if not listener.admin]

    @property
    def admin_ports(self) -> list[int]:
        """The same for ``admin.listeners``."""
        return [listener.port for listener in self._listeners if listener.admin]

    def start(self, herder: Herder) -> None:
        """Serves the herder; returns when requests are being answered. Raises IllegalStateError when called twice."""
        # FastAPI is imported here: a worker that fails on its configuration does not pay for it.
        from rest.app import ADMIN, PUBLIC, build_admin_app, build_app
        from rest.settings import DoorSettings

        door = self._door or DoorSettings()
        parts = (*PUBLIC, *ADMIN) if self._settings.admin_listeners is None else PUBLIC
        admin = build_admin_app(herder, door, self._lanes) if self.admin_ports else None
        self.serve(build_app(herder, door, self._lanes, parts), admin)

    def serve(self, app: ASGIApp, admin: ASGIApp | None = None) -> None:
        """As :meth:`start`, for any ASGI app; ``admin`` is that of the admin listeners."""
        if self._thread is not None:
            raise IllegalStateError("The REST server was started before")
        public_config, admin_config = _config(app), _config(admin or app)
        self._server = _Server(
            [(listener, admin_config if listener.admin else public_config) for listener in self._listeners], self._serving
        )
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="rest", daemon=True)
        self._thread.start()
        if not self._serving.wait(START_TIMEOUT_S):
            raise IllegalStateError("The REST server did not start; see the log")
        log.info("REST answers at %s", self.url)

    def _run(self, server: _Server) -> None:
        try:
            server.run(sockets=[listener.sock for listener in self._listeners])
        except Exception:
            log.exception("The REST server failed")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Takes no more connections, lets running requests end within the time, closes. May be called twice."""
        deadline = time.monotonic() + timeout_s + 1
        server, thread = self._server, self._thread
        if server is not None and thread is not None and thread.is_alive():
            server.config.timeout_graceful_shutdown = max(1, round(timeout_s))
            server.end()
            thread.join(timeout_s + 1)
            if thread.is_alive():
                log.warning("The REST server still has requests after %s s and is abandoned", timeout_s)
        for listener in self._listeners:
            listener.sock.close()
        if hanging := self._lanes.close(deadline):
            log.warning("Requests still run after %s s and are abandoned: threads %s", timeout_s, ", ".join(hanging))
        extensions = self._door.extensions if self._door else ()
        close_all({f"REST extension {type(one).__name__}": one.close for one in extensions}, _EXTENSIONS_S)
        self._door = None


def _config(app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http="httptools",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=None,
    )
