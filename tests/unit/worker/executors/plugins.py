"""Connectors for executor tests, with a script for each connector name."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from connect import ConfigDef, ConfigType, SourceConnector, SourceRecord, SourceTask
from connect.errors import BadRequestError
from tests.support.waiting import WAIT_S

PATH = f"{__name__}:ScriptedConnector"


class Script:
    """What one connector does, and the calls that it received."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.hang_in: str | None = None
        self.hanging = threading.Event()
        self.proceed = threading.Event()
        self.fail_in: str | None = None
        self.failure: BaseException | None = None
        """The error to raise; a ValueError by default."""
        self.tasks: int | None = None
        self.task_configs: Any = None
        """The result of task_configs(); None for as many configs as allowed."""
        self.connectors: list[ScriptedConnector] = []

    def step(self, name: str) -> None:
        self.calls.append(name)
        if self.hang_in == name:
            self.hanging.set()
            self.proceed.wait(WAIT_S)
        if self.fail_in == name:
            raise self.failure or ValueError(f"{name} fails with s3cret")


SCRIPTS: dict[str, Script] = defaultdict(Script)


class ScriptedConnector(SourceConnector):
    version = "7"

    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        self.script = SCRIPTS[config["name"]]
        self.script.connectors.append(self)
        self.script.step("start")

    def task_class(self) -> type[SourceTask]:
        return ScriptedTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self.script.step("task_configs")
        if self.script.task_configs is not None:
            configs: list[dict[str, str]] = self.script.task_configs
            return configs
        return [{**self.config, "task": str(task)} for task in range(self.script.tasks or max_tasks)]

    def stop(self) -> None:
        self.script.step("stop")

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("password", ConfigType.PASSWORD, "", doc="A secret.")

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[Any, Any]) -> bool:
        if not offsets:
            raise BadRequestError("nothing to alter")
        SCRIPTS[config["name"]].calls.append(f"alter {dict(offsets)}")
        return True


class ScriptedTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.script = SCRIPTS[config["name"]]
        self.stopped = threading.Event()
        self.script.step(f"task {config['task']} start")

    def poll(self) -> Sequence[SourceRecord] | None:
        self.script.step("poll") if self.script.hang_in == "poll" else self.stopped.wait(0.01)
        return None

    def stop(self) -> None:
        self.stopped.set()

    def progress(self) -> Mapping[str, Any]:
        return {"values": ["s3cret", 1]}
