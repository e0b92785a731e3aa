"""A source that writes the signals it gets to a topic."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence

from connect import SourceRecord, SourceTask
from connect.config.definition import ConfigDef, ConfigType
from connect.connector import SourceConnector


class SignalSource(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return SignalSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._config]

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("topic", ConfigType.STRING, doc="Where signals go.")


class SignalSourceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._topic = config["topic"]
        self._received: queue.Queue[str] = queue.Queue()

    def poll(self) -> Sequence[SourceRecord] | None:
        try:
            signal_id = self._received.get(timeout=0.1)
        except queue.Empty:
            return None
        return [SourceRecord({"source": "signals"}, {"id": signal_id}, self._topic, value=signal_id)]

    def signal(self, signal_id: str, type: str, data: str | None) -> None:
        self._received.put(signal_id)

    def stop(self) -> None: ...
