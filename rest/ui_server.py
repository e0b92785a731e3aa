"""Runs the web page for a worker elsewhere, until it is closed."""

from __future__ import annotations

import time

from rest.rest_server import STOP_TIMEOUT_S, RestServer
from rest.server.listeners import ListenSettings
from rest.server.thread_pools import ThreadPools
from rest.ui.proxy import build_ui_proxy


class UiServer:
    """The server of ``sluice ui``. Close after use."""

    def __init__(self, target_url: str, host: str, port: int, *, read_only: bool) -> None:
        """Binds and serves. Raises ConfigError or UnreachableError if it cannot listen; port 0 is any free one."""
        self._pools = ThreadPools()
        shown_host = f"[{host}]" if ":" in host else host
        self._server = RestServer.bind(ListenSettings((f"http://{shown_host}:{port}",)))
        self._server.serve(build_ui_proxy(target_url, self._pools, host=shown_host, read_only=read_only))
        self.url = f"http://{shown_host}:{self._server.ports[0]}/ui"

    def close(self) -> None:
        self._server.stop()
        self._pools.close(time.monotonic() + STOP_TIMEOUT_S)
