"""A source and a sink whose call named by ``hangs.in`` never returns, for :mod:`benchmarks.hung_connector`."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from connect import ConfigDef, ConfigType, SinkConnector, SinkRecord, SinkTask, SourceConnector, SourceRecord, SourceTask
from connect.config.definition import ConfigValue

SOURCE, SINK = f"{__name__}:HangingSource", f"{__name__}:HangingSink"
_IDLE_S = 0.1


def hang(config: Mapping[str, str], method: str) -> None:
    """Blocks for good if the configuration says so."""
    if config.get("hangs.in") == method:
        threading.Event().wait()


def _definition() -> ConfigDef:
    return ConfigDef().define("hangs.in", ConfigType.STRING, "", doc="The method that does not return.")


class HangingSource(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)
        hang(config, "start")

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        hang(config, "config")
        return super().validate(config)

    def config_def(self) -> ConfigDef:
        return _definition()

    def task_class(self) -> type[SourceTask]:
        return HangingSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]

    def stop(self) -> None:
        hang(self.config, "stop")


class HangingSourceTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config
        self.stopped = threading.Event()

    def poll(self) -> Sequence[SourceRecord] | None:
        hang(self.config, "poll")
        self.stopped.wait(_IDLE_S)
        return None

    def stop(self) -> None:
        self.stopped.set()
        hang(self.config, "stop")


class HangingSink(SinkConnector):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = dict(config)

    def config_def(self) -> ConfigDef:
        return _definition()

    def task_class(self) -> type[SinkTask]:
        return HangingSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config)]

    def stop(self) -> None:
        """Nothing to release."""


class HangingSinkTask(SinkTask):
    def start(self, config: Mapping[str, str]) -> None:
        self.config = config

    def put(self, records: Sequence[SinkRecord]) -> None:
        if records:
            hang(self.config, "put")

    def stop(self) -> None:
        """Nothing to release."""
