"""A Connect worker process that tests start, stop, kill, and freeze. A `Kind` is an implementation of a worker.

Sluice's worker is one kind; tests/interop has Apache's. A worker's files are in its folder:

    <name>.properties   rewritten at every start
    <name>.out          its output over all starts, with the JSON lines of verifiable connectors
    <name>.log          its log, for a kind with a separate log file
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
from tests.support.waiting import WAIT_S, Deadline

_TAIL_BYTES = 100_000_000
"""Bytes of output to search for log lines: verifiable connectors print a lot between two of them."""
_REQUEST_LOG = "runtime.rest.RestServer:57)"
"""Part of Apache's request log lines, which fill the log while a test polls."""


def _nothing() -> None:
    """Does nothing."""


@dataclass(frozen=True, slots=True)
class Launch:
    """How to start one worker. ``stopped`` is called after a graceful shutdown."""

    command: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)
    stopped: Callable[[], None] = _nothing


@dataclass(frozen=True, slots=True)
class Kind:
    """An implementation of a worker. ``launch`` gets the files of the command line, the worker's first, and the log file."""

    name: str
    launch: Callable[[Sequence[Path], Path], Launch]
    properties: Mapping[str, str] = field(default_factory=dict)
    graceful_exit_codes: tuple[int, ...] = (0,)
    """Exit codes of a graceful shutdown after SIGTERM."""


def _launch_sluice(module: str, files: Sequence[Path], log: Path) -> Launch:
    return Launch([sys.executable, "-m", module, *files])


SLUICE = Kind("Sluice", partial(_launch_sluice, "sluice.run.distributed"))
SLUICE_STANDALONE = Kind("Sluice standalone", partial(_launch_sluice, "sluice.run.standalone"))


class WorkerProcess:
    """One worker that keeps its folder and port across restarts. It ends with this process (Linux). Not thread-safe."""

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
        """``connector_files`` are for standalone workers. Sets ``listeners`` in the properties to a port at ``host``."""
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
        """Starts the worker without waiting. With ``crash_at`` it kills itself at that crash point (SLUICE_CRASH_AT)."""
        assert not self.running, f"worker {self.name} is already running"
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

    def wait_until_up(self) -> None:
        """Waits until the worker is healthy. Fails at once if it exits."""
        self.wait_for(self._is_healthy, WAIT_S, "the worker to be healthy")

    def _is_healthy(self) -> bool:
        try:
            return bool(self.client.health()["status"] == "healthy")
        except UnreachableError:
            return False

    def wait_for(self, condition: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Waits until the condition holds. Fails at once if the worker exits."""
        deadline = Deadline(f"{what} at {self.name}", self.log_tail, timeout_s)
        while not condition():
            code = self._child.poll() if self._child is not None else None
            assert code is None, f"worker {self.name} ended with {code}:\n{self.log_tail()}"
            deadline.check()
            time.sleep(0.1)

    def wait_for_crash(self, point: str, timeout_s: float = WAIT_S) -> None:
        """Waits until the worker has killed itself at this crash point. Fails if it ends otherwise, or not in time."""
        assert self._child is not None
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"worker {self.name} did not reach {point} in {timeout_s:g} s:\n{self.log_tail()}") from None
        self.client.close()
        assert code == -signal.SIGKILL, f"worker {self.name} ended with {code} before {point}:\n{self.log_tail()}"

    def run_for(self, seconds: float) -> None:
        """Lets the worker run. Fails as soon as it ends."""
        assert self._child is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._child.wait(seconds)
            raise AssertionError(f"worker {self.name} ended with {code}:\n{self.log_tail()}")

    def wait_for_exit(self) -> int:
        """Waits for the worker to exit by itself and returns the exit code."""
        assert self._child is not None
        code = self._child.wait(WAIT_S)
        self.client.close()
        return code

    def terminate(self) -> None:
        """Sends SIGTERM without waiting, so that several workers can stop in parallel."""
        self.client.close()
        if self._child is not None:
            self._child.terminate()

    def stop(self, timeout_s: float = WAIT_S) -> int:
        """Sends SIGTERM and returns the exit code. Fails if the worker does not shut down gracefully in time."""
        assert self._child is not None
        assert self._launch is not None
        self.terminate()
        try:
            code = self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.print_stacks()
            raise AssertionError(f"worker {self.name} did not exit within {timeout_s:g} s:\n{self.log_tail()}") from None
        assert code in self.kind.graceful_exit_codes, f"worker {self.name} ended with {code}:\n{self.log_tail()}"
        self._launch.stopped()
        return code

    def print_stacks(self) -> None:
        """Sends SIGQUIT, which prints the stacks of all threads to the worker's output."""
        assert self._child is not None
        self._child.send_signal(signal.SIGQUIT)
        time.sleep(1.0)

    def kill(self) -> None:
        """Sends SIGKILL to the worker only; its children must notice by themselves."""
        self.client.close()
        if self._child is not None:
            self._child.kill()
            self._child.wait(WAIT_S)

    def freeze(self) -> None:
        """Sends SIGSTOP to the worker and its children, as if the machine hangs."""
        self.client.close()
        self._frozen = True
        for one in self._process_tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.suspend()

    def thaw(self) -> None:
        """Sends SIGCONT to the frozen processes."""
        self._frozen = False
        for one in self._process_tree():
            with contextlib.suppress(psutil.NoSuchProcess):
                one.resume()

    def _process_tree(self) -> list[psutil.Process]:
        try:
            worker = psutil.Process(self.pid)
            return [worker, *worker.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def surviving_processes(self) -> list[int]:
        """Returns processes of the worker's session that still run. Executors of a killed worker exit after a moment."""
        if self._child is None:
            return []
        found = []
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if one.pid != self.pid and os.getsid(one.pid) == self.pid and one.status() != psutil.STATUS_ZOMBIE:
                    found.append(one.pid)
        return found

    def end(self) -> None:
        """Kills the worker and all its processes, in any state."""
        self.kill()
        for pid in self.surviving_processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def log_tail(self, size: int = 6000) -> str:
        """Returns the end of the log and of the output since the last start, without request logs and lines of verifiable
        connectors."""
        logged = ""
        if self.log.exists():
            lines = self.log.read_text(encoding="utf-8", errors="replace").splitlines()
            logged = "\n".join(line for line in lines if _REQUEST_LOG not in line)[-size:]
        if self.out.exists():
            with self.out.open("rb") as out:
                start = max(self._out_from, out.seek(0, os.SEEK_END) - _TAIL_BYTES)
                out.seek(start)
                if start > self._out_from:
                    out.readline()  # an incomplete line
                printed = [line for line in out.read().splitlines() if not line.startswith(b"{")]
            logged += "\n" + b"\n".join(printed).decode("utf-8", "replace")[-size:]
        return logged

    def printed(self) -> list[dict[str, Any]]:
        """Returns the JSON objects that the worker printed over all starts. Skips lines cut off by a kill."""
        if not self.out.exists():
            return []
        found = []
        for line in self.out.read_bytes().splitlines():
            if line.startswith(b"{"):
                with contextlib.suppress(ValueError):
                    found.append(json.loads(line))
        return found


SluiceWorker = partial(WorkerProcess, SLUICE)
