"""A source that follows a script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.connector import SourceConnector
from connect.errors import ConfigError
from connect.record import SourceRecord
from connect.source import SourceTask

Step = Sequence[SourceRecord] | Exception | None | Callable[[], Sequence[SourceRecord] | None]
"""One ``poll``: records to return, nothing, an error to raise, or a function to call."""

SCRIPT = "script"
CONFIG = ConfigDef().define(
    SCRIPT, ConfigType.STRING, importance=Importance.HIGH, doc="The name under which the script was registered."
)


class ScriptedSource(SourceConnector):
    """Runs the registered script that the key ``script`` names, with one task."""

    scripts: ClassVar[dict[str, list[Step]]] = {}

    @classmethod
    def register(cls, name: str, steps: Sequence[Step]) -> None:
        """Registers a script in this process; replaces one of the same name."""
        cls.scripts[name] = list(steps)

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, config: Mapping[str, str]) -> None:
        self._script(config)
        self._config = dict(config)

    @classmethod
    def _script(cls, config: Mapping[str, str]) -> list[Step]:
        name = CONFIG.parse(config)[SCRIPT]
        if name not in cls.scripts:
            raise ConfigError.invalid(SCRIPT, name, f"no such script, registered are {', '.join(cls.scripts) or 'none'}")
        return cls.scripts[name]

    def task_class(self) -> type[SourceTask]:
        return ScriptedSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Nothing runs beside the task."""


class ScriptedSourceTask(SourceTask):
    """Runs its steps, then returns nothing. ``committed`` has the offsets that were committed."""

    def __init__(self, steps: Sequence[Step] | None = None) -> None:
        self._steps = None if steps is None else list(steps)
        self._next = 0
        self._stopped = threading.Event()
        self.committed: list[tuple[dict[str, Any], dict[str, Any]]] = []

    def start(self, config: Mapping[str, str]) -> None:
        if self._steps is None:
            self._steps = list(ScriptedSource._script(config))

    def poll(self) -> Sequence[SourceRecord] | None:
        steps = self._steps or []
        if self._next >= len(steps):
            self._stopped.wait(0.01)
            return None
        step = steps[self._next]
        self._next += 1
        if isinstance(step, Exception):
            raise step
        return step() if callable(step) else step

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        self.committed += [(dict(partition), dict(offset)) for partition, offset in offsets]

    def stop(self) -> None:
        self._stopped.set()
