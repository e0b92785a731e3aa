"""Connectors that harm their process on request. Tests control them from other processes through files in a folder."""

from __future__ import annotations

import ctypes
import faulthandler
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from connect import ConfigDef, ConfigType, SinkConnector, SinkRecord, SinkTask, SourceConnector, SourceRecord, SourceTask
from connect.config.definition import ConfigValue
from connect.errors import BadRequestError
from connect.external_system import ConnectionStep, DataCollection
from connect.worker_lifetime import executor_scope

PATH = f"{__name__}:Rogue"
LEAK: list[bytearray] = []


def misbehave(where: str, config: Mapping[str, str]) -> None:
    """Runs the scripted action if it is for this method and the file ``go`` exists. With ``once`` it removes the file first."""
    action, _, method = config.get("does", "").partition("@")
    allowed = Path(config.get("folder", "")) / "go"
    if method != where or not allowed.exists():
        return
    if config.get("once"):
        allowed.unlink()
    match action:
        case "exit":
            os._exit(3)
        case "silence":
            os._exit(75)  # like an executor whose worker is silent
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "hold":
            ctypes.PyDLL(None).sleep(600)  # holds the GIL
        case "hang":
            threading.Event().wait(600)
        case "leak":
            LEAK.append(bytearray(os.urandom(1)) * 200_000_000)
        case "log":
            logging.getLogger("rogue").error("my password is %s", config["password"])
        case "share":
            start_shared_process(Path(config["folder"]) / "pid")
        case "crash":
            crash_with_secret(config["password"])
        case "fail":
            raise ValueError(f"no login with {config['password']}")


def crash_with_secret(password: str) -> None:
    """Fails with the secret where no caller sees it, and then ends the process like a native library."""

    def fail() -> None:
        raise ValueError(f"no thread with {password}")

    class Finalized:
        def __del__(self) -> None:
            raise ValueError(f"no finalizer with {password}")

    thread = threading.Thread(target=fail, name=f"thread of {password}")
    thread.start()
    thread.join()
    Finalized()
    faulthandler.enable()
    held = f"a local with {password}"
    ctypes.string_at(0)
    del held


def start_shared_process(pid_file: Path) -> None:
    """Starts a process that serves the whole worker, and ends when the worker does."""
    scope = executor_scope()
    assert scope is not None
    wait = [sys.executable, "-c", f"import os; os.read({scope.descriptor}, 1)"]
    process = subprocess.Popen(wait, pass_fds=[scope.descriptor], start_new_session=True)
    draft = pid_file.with_suffix(".tmp")
    draft.write_text(str(process.pid))
    draft.rename(pid_file)


class UnresponsiveSystem:
    """Answers nothing until it is cancelled. Notes in files what was called."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._cancelled = threading.Event()

    def test_connection(self) -> Iterator[ConnectionStep]:
        (self._folder / "asked").touch()
        self._cancelled.wait(600)
        yield ConnectionStep("Connection", is_skipped=True)

    def data_collections(self) -> Sequence[DataCollection]:
        return []

    def cancel(self) -> None:
        self._cancelled.set()
        (self._folder / "cancelled").touch()

    def close(self) -> None: ...


class Rogue(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        misbehave("start", config)

    def task_class(self) -> type[SourceTask]:
        return RogueTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        misbehave("task_configs", self.config)
        return [dict(self.config) for _ in range(max_tasks)]

    def stop(self) -> None:
        misbehave("stop", self.config)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        misbehave("validate", config)
        return super().validate(config)

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("password", ConfigType.PASSWORD, "", doc="A secret.")

    def external_system(self, config: Mapping[str, str]) -> UnresponsiveSystem:
        return UnresponsiveSystem(Path(config["folder"]))


class RogueTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.stopped = threading.Event()
        self.work = 0
        self.signals: list[str] = []

    def signal(self, signal_id: str, type: str, data: str | None) -> None:
        if type == "refused":
            raise BadRequestError("refused")
        self.signals.append(f"{signal_id} {type} {data}")

    def poll(self) -> Sequence[SourceRecord] | None:
        misbehave("poll", self.config)
        self.stopped.wait(0.02)
        return None

    def stop(self) -> None:
        self.stopped.set()
        misbehave("task stop", self.config)

    def progress(self) -> Mapping[str, Any]:
        python = os.path.realpath(sys.prefix)
        return {"pid": os.getpid(), "python": python, "signals": self.signals}


class RogueSink(SinkConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def task_class(self) -> type[SinkTask]:
        return RogueSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return ConfigDef()


class RogueSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config

    def put(self, records: Sequence[SinkRecord]) -> None:
        misbehave("put", self.config)

    def progress(self) -> Mapping[str, Any]:
        # Hangs as a lock does that the hanging put() holds.
        misbehave("put", self.config)
        return {}

    def stop(self) -> None: ...
