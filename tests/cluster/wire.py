"""A wire between workers and a broker that can be cut: what is sent then waits, and nobody is told, as if packets were lost."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.ports import LOOPBACK, free_ports

_PIECE = 65536
_START_S = 10.0


class Wire:
    """Passes connections on to a port, on a thread of its own. While it is cut, connections stay open and new ones are accepted,
    but no byte goes either way; what was sent meanwhile arrives when it is mended."""

    def __init__(self, target_port: int) -> None:
        self.port = free_ports(1)[0]
        self._target_port = target_port
        self._loop = asyncio.new_event_loop()
        self._whole = asyncio.Event()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="wire", daemon=True)
        self._ready = threading.Event()

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(_START_S), "the wire does not come up"

    def cut(self) -> None:
        self._call(self._whole.clear)

    def mend(self) -> None:
        self._call(self._whole.set)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_START_S)
        assert not self._thread.is_alive()

    def _call(self, change: Callable[[], None]) -> None:
        """Returns when it is done."""
        done = threading.Event()

        def run() -> None:
            change()
            done.set()

        self._loop.call_soon_threadsafe(run)
        assert done.wait(_START_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._whole.set()
        server = await asyncio.start_server(self._connected, LOOPBACK, self.port)
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _connected(self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter) -> None:
        await self._whole.wait()
        try:
            far_in, far_out = await asyncio.open_connection(LOOPBACK, self._target_port)
        except OSError:
            near_out.close()
            return
        try:
            ends = [asyncio.create_task(self._pass_on(near_in, far_out)), asyncio.create_task(self._pass_on(far_in, near_out))]
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                end.cancel()
            await asyncio.wait(ends)
        finally:
            near_out.close()
            far_out.close()

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while piece := await source.read(_PIECE):
                await self._whole.wait()
                target.write(piece)
                await target.drain()
        except OSError:
            return
        await self._whole.wait()  # that it was closed is not heard of either


@contextmanager
def wired_broker(folder: Path) -> Iterator[tuple[EmbeddedBroker, Wire]]:
    """A broker of its own, and a wire to it: clients that begin at the wire's port stay on the wire."""
    behind_wire = free_ports(1)[0]
    wire = Wire(behind_wire)
    wire.start()
    try:
        with broker_with_second_door(folder, f"{LOOPBACK}:{behind_wire}", f"{LOOPBACK}:{wire.port}") as broker:
            yield broker, wire
    finally:
        wire.close()


@contextmanager
def broker_with_second_door(folder: Path, door: str, told: str) -> Iterator[EmbeddedBroker]:
    """A broker that also listens at ``door``, and sends clients that come there to ``told``."""
    port, controller = free_ports(2)
    here = LOOPBACK
    settings = {
        "listeners": f"PLAINTEXT://{here}:{port},DOOR://{door},CONTROLLER://{here}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,DOOR:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "advertised.listeners": f"PLAINTEXT://{here}:{port},DOOR://{told}",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.quorum.voters": f"1@{here}:{controller}",
    }
    broker = EmbeddedBroker(folder, port=port, dies_with_parent=True, settings=settings)
    try:
        broker.start()
        yield broker
    finally:
        broker.remove()
