"""uvicorn with several kinds of listeners, certificate reloading, and an immediate stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from rest.server.listeners import BoundListener

log = logging.getLogger(__name__)

_KEEP_ALIVE_S = 30
_HANDSHAKE_TIMEOUT_S = 15.0
_MAX_CONNECTIONS = 2000
"""Further requests get 503 at once."""
_TICK_S = 1.0


class UvicornServer(uvicorn.Server):
    """Serves several listeners. Sets ``serving`` once it serves, ticks once a second (uvicorn: ten times), reloads changed
    certificates at each tick, and stops at once when asked."""

    def __init__(
        self, listeners: Sequence[tuple[BoundListener, uvicorn.Config]], serving: threading.Event, max_head_bytes: int
    ) -> None:
        super().__init__(listeners[0][1])
        self._max_head_bytes = max_head_bytes
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

            return Connection(
                config=config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                max_head_bytes=self._max_head_bytes,
            )

        loop = asyncio.get_running_loop()
        # A duplicate socket, so that one server can be closed and another opened on the address without refusing connections.
        sock = listener.sock.dup()
        if listener.tls is None:
            return await loop.create_server(protocol, sock=sock, backlog=config.backlog)
        return await loop.create_server(
            protocol,
            sock=sock,
            backlog=config.backlog,
            ssl=listener.tls.context,
            ssl_handshake_timeout=_HANDSHAKE_TIMEOUT_S,
            ssl_shutdown_timeout=1.0,
        )

    async def _reload_certificates(self) -> None:
        for i, (listener, config) in enumerate(self._listeners):
            if listener.tls is not None and listener.tls.reload_if_changed():
                self.servers[i].close()  # stops accepting; open connections continue
                self.servers[i] = await self._open(listener, config)
                log.info("Reloaded the certificate of %s", listener.url)

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        # 0 is the tick at which uvicorn renews the Date header.
        await self.on_tick(0)
        self._serving.set()
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_S)
            await self._reload_certificates()

    def stop(self) -> None:
        """Stops the loop. May be called from any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)


def uvicorn_config(app: ASGIApp) -> uvicorn.Config:
    """Returns uvicorn's settings for an ASGI app."""
    return uvicorn.Config(
        app,
        http="httptools",
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=None,
    )
