"""The HTTP server: uvicorn on a thread and event loop of its own, beside the worker's threads.

Bind first, then build the worker, then serve: a port that is taken is found before any connector starts, and the worker
knows its own address.

    server = RestServer.bind(ListenSettings(("http://:8083",)))
    herder = StandaloneHerder(config, worker_id=server.worker_id)
    server.start(herder)
    ...
    server.stop()
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Sequence

import uvicorn
from starlette.types import ASGIApp

from connect.errors import IllegalStateError
from rest.listeners import BoundListener, ListenSettings, advertised_address, bind_listeners, format_host
from worker.herder import Herder

log = logging.getLogger(__name__)

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
_TICK_S = 1.0


class _Server(uvicorn.Server):
    """uvicorn's server that tells when it serves, ticks once a second instead of ten times, and ends at once when told."""

    def __init__(self, config: uvicorn.Config, serving: threading.Event) -> None:
        super().__init__(config)
        self._serving = serving
        self._wake = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._serving.set()
        # 0 is the tick at which uvicorn renews the Date header.
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), _TICK_S)

    def end(self) -> None:
        """Ends the loop. From any thread."""
        self.should_exit = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._wake.set)


class RestServer:
    """Owns the listening sockets and the thread ``rest``. Started once, stopped once; ``stop`` may be called at any time."""

    def __init__(self, listeners: Sequence[BoundListener], settings: ListenSettings) -> None:
        self._listeners = list(listeners)
        self._host, self._port = advertised_address(settings, self._listeners[0])
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None
        self._serving = threading.Event()

    @classmethod
    def bind(cls, settings: ListenSettings | None = None) -> RestServer:
        """Takes the addresses. Raises ConfigError or UnreachableError (see :func:`~rest.listeners.bind_listeners`)."""
        settings = settings or ListenSettings()
        return cls(bind_listeners(settings.listeners), settings)

    @property
    def worker_id(self) -> str:
        """``host:port`` as advertised."""
        return f"{format_host(self._host)}:{self._port}"

    @property
    def url(self) -> str:
        """The advertised address as a URL, with a slash at its end as member URLs have."""
        return f"http://{self.worker_id}/"

    @property
    def ports(self) -> list[int]:
        """The real port of every listener, in their order."""
        return [listener.port for listener in self._listeners]

    def start(self, herder: Herder) -> None:
        """Serves the herder; returns when requests are being answered. Raises IllegalStateError when called twice."""
        # FastAPI is imported here: a worker that fails on its configuration does not pay for it.
        from rest.app import build_app

        self.serve(build_app(herder))

    def serve(self, app: ASGIApp) -> None:
        """As :meth:`start`, for any ASGI app."""
        if self._thread is not None:
            raise IllegalStateError("The REST server was started before")
        config = uvicorn.Config(
            app,
            http="httptools",
            loop="asyncio",
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=None,
        )
        self._server = _Server(config, self._serving)
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
        server, thread = self._server, self._thread
        if server is not None and thread is not None and thread.is_alive():
            server.config.timeout_graceful_shutdown = max(1, round(timeout_s))
            server.end()
            thread.join(timeout_s + 1)
            if thread.is_alive():
                log.warning("The REST server still has requests after %s s and is abandoned", timeout_s)
        for listener in self._listeners:
            listener.sock.close()
