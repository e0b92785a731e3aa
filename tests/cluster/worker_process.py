"""A Connect worker as a process: started, stopped, killed and frozen at will. Of which make it is, a `Kind` says.

Sluice's own worker is one kind; tests/interop has Apache's. All that a worker needs is in its folder:

    <name>.properties   written anew at every start
    <name>.out          what it prints, appended to over its starts: the verifiable connectors print JSON lines there
    <name>.log          its log, for a kind that writes one apart
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from connect.errors import UnreachableError
from rest.client import ConnectClient
from sluice.embedded import process
from sluice.embedded.ports import LOOPBACK, free_ports

_LOOKED_AT = 100_000_000
"""Bytes at the end of what a worker printed: verifiable connectors print much between two lines of the log."""
_REQUEST = "runtime.rest.RestServer:57)"
"""In lines of Apache's about requests: a test that waits for something makes thousands of them."""


def _nothing() -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How one worker is started. ``stopped`` is called when it has ended in order, after SIGTERM."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    stopped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Kind:
    """A make of worker. ``launch`` gets the files of the command line, the worker's own first, and the file for its log."""

    name: str
    launch: Callable[[Sequence[Path], Path], Launch]
    properties: Mapping[str, str] = field(default_factory=dict)
    orderly_codes: tuple[int, ...] = (0,)
    """Exit codes after SIGTERM that say that all went well."""


def _launch_sluice(module: str, files: Sequence[Path], log: Path) -> Launch:
    return Launch([sys.executable, "-m", module, *files])


SLUICE = Kind("Sluice", partial(_launch_sluice, "sluice.run.distributed"))
SLUICE_STANDALONE = Kind("Sluice standalone", partial(_launch_sluice, "sluice.run.standalone"))


class WorkerProcess:
    """One worker with a folder and a port of its own, kept over restarts. It dies with this process (Linux). Not thread-safe."""

    def __init__(
        self,
        kind: Kind,
        home: Path,
        name: str,
        properties: Mapping[str, str],
        *,
        connector_files: Sequence[Path] = (),
        host: str = LOOPBACK,
    ) -> None:
        """``connector_files`` are for standalone workers. ``listeners`` in the properties is set here, at ``host``."""
        self.kind = kind
        self.name = name
        self.home = home
        self.out = home / f"{name}.out"
        self.log = home / f"{name}.log"
        self.port = free_ports(1)[0]
        self.worker_id = f"{host}:{self.port}"
        self.url = f"http://{self.worker_id}"
        self.client = ConnectClient(self.url)
        self.properties = {**kind.properties, **properties, "listeners": self.url}
        self._connector_files = tuple(connector_files)
        self._launch: Launch | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._out_from = 0
        self._frozen = False

    @property
    def frozen(self) -> bool:
        return self._frozen and self.running

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        assert self._child is not None, f"worker {self.name} was never started"
        return self._child.pid

    def start(self, crash_at: str | None = None, environment: Mapping[str, str] | None = None) -> None:
        """Launches the worker and returns at once; with ``crash_at`` it kills itself at that point (SLUICE_CRASH_AT)."""
        assert not self.running, f"worker {self.name} runs already"
        self._frozen = False
        self.home.mkdir(parents=True, exist_ok=True)
        file = self.home / f"{self.name}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()), encoding="utf-8")
        self._launch = self.kind.launch((file, *self._connector_files), self.log)
        self._out_from = process.log_size(self.out)
        self._child = process.spawn(
            self._launch.command,
            log=self.out,
            cwd=Path.cwd(),
            environment={
                **os.environ,
                **self._launch.environment,
                **({"SLUICE_CRASH_AT": f"worker/{crash_at}"} if crash_at else {}),
                **(environment or {}),
            },
            death_signal=signal.SIGKILL,
        )

    def wait_until_up(self, timeout_s: float = 60.0) -> None:
        """Returns when the worker answers as healthy; fails at once when it has ended."""
        self.wait_for(self._is_healthy, timeout_s, "the worker to be healthy")

    def _is_healthy(self) -> bool:
        try:
            return bool(self.client.health()["status"] == "healthy")
        except UnreachableError:
            return False

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Waits for something that needs this worker alive."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            code = self._child.poll() if self._child is not None else None
            assert code is None, f"worker {self.name} ended with {code}:\n{self.log_tail()}"
            assert time.monotonic() < deadline, f"waited {timeout_s:g} s for {what} at {self.name}\n{self.log_tail()}"
            time.sleep(0.05)

    def wait_for_crash(self, timeout_s: float) -> bool:
        """True when the worker killed itself in time."""
        assert self._child is not None
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        self.client.close()
        return code == -signal.SIGKILL

    def wait_for_exit(self, timeout_s: float) -> int:
        """The exit code of a worker that ends by itself."""
        assert self._child is not None
        code = self._child.wait(timeout_s)
        self.client.close()
        return code

    def terminate(self) -> None:
        """SIGTERM; returns at once, so that several workers can end side by side."""
        self.client.close()
        if self._child is not None:
            self._child.terminate()

    def stop(self, timeout_s: float = 60.0) -> int:
        """SIGTERM, and the exit code. Fails when the worker does not end in time, or not in order."""
        assert self._child is not None
        assert self._launch is not None
        self.terminate()
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.print_stacks()
            raise AssertionError(f"worker {self.name} does not end within {timeout_s:g} s:\n{self.log_tail()}") from None
        assert code in self.kind.orderly_codes, f"worker {self.name} ended with {code}:\n{self.log_tail()}"
        self._launch.stopped()
        return code

    def print_stacks(self) -> None:
        """SIGQUIT: what each of its threads does goes to its output."""
        assert self._child is not None
        self._child.send_signal(signal.SIGQUIT)
        time.sleep(1.0)

    def kill(self) -> None:
        """SIGKILL, to the worker alone: its children must notice by themselves."""
        self.client.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait(30)

    def freeze(self) -> None:
        """SIGSTOP, to the worker and its children: as a machine that hangs."""
        self.client.close()
        self._frozen = True
        for one in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()

    def thaw(self) -> None:
        """SIGCONT, to all that were frozen."""
        self._frozen = False
        for one in self._family():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()

    def _family(self) -> list[psutil.Process]:
        try:
            worker = psutil.Process(self.pid)
            return [worker, *worker.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def left_behind(self) -> list[int]:
        """Processes of this worker's session that outlive it. Executors of a killed worker end soon, not at once."""
        if self._child is None:
            return []
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if one.pid != self.pid and os.getsid(one.pid) == self.pid and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one.pid)
        return found

    def end(self) -> None:
        """Whatever state it is in: nothing of the worker runs afterwards."""
        self.kill()
        for pid in self.left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def log_tail(self, size: int = 6000) -> str:
        """The end of what it logged and, since the last start, printed; without lines of verifiable connectors and
        of Apache's about requests."""
        logged = ""
        if self.log.exists():
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            logged = "\n".join(line for line in lines if _REQUEST not in line)[-size:]
        if self.out.exists():
            with self.out.open("rb") as out:
                begin = max(self._out_from, out.seek(0, os.SEEK_END) - _LOOKED_AT)
                out.seek(begin)
                if begin > self._out_from:
                    out.readline()  # the end of a line of which the beginning is not there
                printed = [line for line in out.read().splitlines() if not line.startswith(b"{")]
            logged += "\n" + b"\n".join(printed).decode("utf-8", "replace")[-size:]
        return logged

    def printed(self) -> list[dict[str, Any]]:
        """The JSON objects among the lines that it printed, over all its starts. A line cut off by a kill is left out."""
        if not self.out.exists():
            return []
        found = []
        for line in self.out.read_bytes().splitlines():
            if line.startswith(b"{"):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found


SluiceWorker = partial(WorkerProcess, SLUICE)
