"""A TCP proxy between workers and a broker that can be cut, as if packets were lost: data waits and no connection closes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK, free_ports
from tests.support.waiting import WAIT_S

_CHUNK_BYTES = 65536


class TcpProxy:
    """Forwards connections to a port on its own thread. While it is cut, it accepts connections and keeps them open, but forwards
    no data; the data arrives after ``restore``."""

    def __init__(self, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._uncut = asyncio.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="tcp-proxy", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(WAIT_S), "the proxy did not start"

    def cut(self) -> None:
        self._call(self._uncut.clear)

    def restore(self) -> None:
        self._call(self._uncut.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def _call(self, change: Callable[[], None]) -> None:
        """Runs the change on the proxy's loop and waits for it."""
        done = threading.Event()

        def run() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(WAIT_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._uncut.set()
        server = await asyncio.start_server(self._connected, LOOPBACK, self.port)
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, client_in: asyncio.StreamReader, client_out: asyncio.StreamWriter) -> None:
        await self._uncut.wait()
        try:
            broker_in, broker_out = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            client_out.close()
            return
        try:
            directions = [
                asyncio.create_task(self._forward(client_in, broker_out)),
                asyncio.create_task(self._forward(broker_in, client_out)),
            ]
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
            for direction in directions:
                direction.cancel()
            await asyncio.wait(directions)
        finally:
            client_out.close()
            broker_out.close()

    async def _forward(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while chunk := await source.read(_CHUNK_BYTES):
                await self._uncut.wait()
                target.write(chunk)
                await target.drain()
        except OSError:
            return
        await self._uncut.wait()  # the close is not forwarded either


@contextmanager
def proxied_broker(folder: Path) -> Iterator[tuple[EmbeddedBroker, TcpProxy]]:
    """Starts a broker and a proxy to it. Clients that bootstrap at the proxy's port stay on the proxy."""
    target_port = free_ports(1)[0]
    proxy = TcpProxy(target_port)
    proxy.start()
    try:
        with broker_with_second_listener(folder, f"{LOOPBACK}:{target_port}", f"{LOOPBACK}:{proxy.port}") as broker:
            yield broker, proxy
    finally:
        proxy.close()


@contextmanager
def broker_with_second_listener(folder: Path, listener: str, advertised: str) -> Iterator[EmbeddedBroker]:
    """Starts a broker with another listener at ``listener``, which is advertised as ``advertised``."""
    port, controller = free_ports(2)
    settings = {
        "listeners": f"PLAINTEXT://{LOOPBACK}:{port},SECOND://{listener},CONTROLLER://{LOOPBACK}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://{LOOPBACK}:{port},SECOND://{advertised}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
    }
    broker = EmbeddedBroker(folder, port=port, dies_with_parent=True, short_lived=True, settings=settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()
