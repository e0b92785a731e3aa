"""The REST server of a worker: uvicorn on its own thread and event loop.

Bind first, then build the worker, then serve: a port conflict is found before any connector starts, and the worker knows its own
address.

    server = RestServer.bind(ListenSettings(("http://:8083",)))
    herder = StandaloneHerder(config, worker_id=server.worker_id)
    server.start(herder)
    ...
    server.stop()

``RestServer.from_config(config)`` binds the listeners of a worker's properties.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from connect.errors import IllegalStateError
from rest.server.listeners import BoundListener, ListenSettings, advertised_address, bind_listeners
from rest.server.thread_pools import ThreadPools
from rest.server.uvicorn_server import UvicornServer, uvicorn_config
from worker.config.rest_security_config import DEFAULT_MAX_HEADER_BYTES
from worker.config.worker_config import WorkerConfig
from worker.herder import Herder
from worker.operations.shutdown import close_all

if TYPE_CHECKING:
    from rest.settings import RestSettings

log = logging.getLogger(__name__)

START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0
_EXTENSIONS_TIMEOUT_S = 2.0


class RestServer:
    """Owns the listening sockets, the thread ``rest``, and the threads of request handlers. Can be started once. ``stop`` may be
    called at any time."""

    def __init__(
        self, listeners: Sequence[BoundListener], listen_settings: ListenSettings, rest_settings: RestSettings | None = None
    ) -> None:
        self._listeners = list(listeners)
        self._listen_settings = listen_settings
        self._rest_settings = rest_settings
        self._address = advertised_address(listen_settings, self._listeners)
        self._pools = ThreadPools()
        self._server: UvicornServer | None = None
        self._thread: threading.Thread | None = None
        self._serving = threading.Event()

    @classmethod
    def bind(cls, listen_settings: ListenSettings | None = None, rest_settings: RestSettings | None = None) -> RestServer:
        """Binds the listeners. Raises ConfigError or UnreachableError (see :func:`~rest.server.listeners.bind_listeners`)."""
        listen_settings = listen_settings or ListenSettings()
        return cls(bind_listeners(listen_settings), listen_settings, rest_settings)

    @classmethod
    def from_config(cls, config: WorkerConfig) -> RestServer:
        """Like :meth:`bind`, with the settings of a worker's properties. Loads the REST extensions."""
        from rest.settings import listen_settings, rest_settings

        return cls.bind(listen_settings(config), rest_settings(config))

    @property
    def worker_id(self) -> str:
        """The advertised ``host:port``."""
        return self._address.worker_id

    @property
    def url(self) -> str:
        """The advertised URL, with a trailing slash like other member URLs."""
        return self._address.url

    @property
    def ports(self) -> list[int]:
        """The actual ports of ``listeners``, in order."""
        return [listener.port for listener in self._listeners if not listener.admin]

    @property
    def admin_ports(self) -> list[int]:
        """The actual ports of ``admin.listeners``."""
        return [listener.port for listener in self._listeners if listener.admin]

    def start(self, herder: Herder) -> None:
        """Serves the herder. Returns once requests are served. Raises IllegalStateError when called twice."""
        # Imports FastAPI here, so that a worker with an invalid configuration fails faster.
        from rest.app import ADMIN, PUBLIC, build_admin_app, build_app
        from rest.settings import RestSettings

        settings = self._rest_settings or RestSettings()
        routes = (*PUBLIC, *ADMIN) if self._listen_settings.admin_listeners is None else PUBLIC
        admin = build_admin_app(herder, settings, self._pools, self.url) if self.admin_ports else None
        self.serve(build_app(herder, settings, self._pools, routes, self.url), admin)

    def serve(self, app: ASGIApp, admin: ASGIApp | None = None) -> None:
        """Like :meth:`start`, for any ASGI app. ``admin`` serves the admin listeners (default: ``app``)."""
        if self._thread is not None:
            raise IllegalStateError("The REST server has already been started")
        public_config, admin_config = uvicorn_config(app), uvicorn_config(admin or app)
        self._server = UvicornServer(
            [(listener, admin_config if listener.admin else public_config) for listener in self._listeners],
            self._serving,
            DEFAULT_MAX_HEADER_BYTES if self._rest_settings is None else self._rest_settings.max_header_bytes,
        )
        self._thread = threading.Thread(target=self._run, args=(self._server,), name="rest", daemon=True)
        self._thread.start()
        if not self._serving.wait(START_TIMEOUT_S):
            raise IllegalStateError("The REST server did not start; see the log")
        log.info("REST API listening at %s", self.url)

    def _run(self, server: UvicornServer) -> None:
        try:
            server.run(sockets=[listener.sock for listener in self._listeners])
        except Exception:
            log.exception("The REST server failed")

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stops accepting connections, gives running requests ``timeout_s`` to finish, and closes. May be called repeatedly."""
        deadline = time.monotonic() + timeout_s + 1
        server, thread = self._server, self._thread
        if server is not None and thread is not None and thread.is_alive():
            server.config.timeout_graceful_shutdown = max(1, round(timeout_s))
            server.stop()
            thread.join(timeout_s + 1)
            if thread.is_alive():
                log.warning("The REST server still has open requests after %s s and is abandoned", timeout_s)
        for listener in self._listeners:
            listener.sock.close()
        if hanging := self._pools.close(deadline):
            log.warning("Requests are still running after %s s and are abandoned: threads %s", timeout_s, ", ".join(hanging))
        extensions = self._rest_settings.extensions if self._rest_settings else ()
        close_all({f"REST extension {type(one).__name__}": one.close for one in extensions}, _EXTENSIONS_TIMEOUT_S)
        if self._rest_settings is not None and self._rest_settings.security is not None:
            self._rest_settings.security.close()
        self._rest_settings = None
