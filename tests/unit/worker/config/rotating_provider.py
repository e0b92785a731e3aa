"""A connector without tasks and a config provider whose values tests turn, for tests without a broker."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from connect import ConfigDef, ConfigType, SourceConnector, SourceTask
from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.validators import at_least
from connect.errors import ConfigError

HERE = "tests.unit.worker.config.rotating_provider"
CONNECTOR = f"{HERE}:RecordingConnector"
JSON = "org.apache.kafka.connect.json.JsonConverter"


class RotatingProvider(ConfigProvider):
    """Values that the test turns. One at a time; tests empty it."""

    values: ClassVar[dict[str, str]] = {}
    ttl_ms: ClassVar[int | None] = None
    only_if_changed: ClassVar[bool] = False
    params: ClassVar[list[dict[str, str]]] = []
    closed: ClassVar[int] = 0

    @classmethod
    def reset(cls) -> None:
        cls.values, cls.ttl_ms, cls.only_if_changed, cls.params, cls.closed = {}, None, False, [], 0

    def configure(self, configs: Mapping[str, str]) -> None:
        self.params.append(dict(configs))

    def get(self, path: str, keys: Collection[str] | None = None) -> ConfigData:
        if path == "broken":
            raise ConfigError("No answer from broken")
        return ConfigData(dict(self.values), self.ttl_ms, self.only_if_changed)

    def close(self) -> None:
        RotatingProvider.closed += 1


class RecordingConnector(SourceConnector):
    """Notes what it was started with."""

    starts: ClassVar[list[dict[str, str]]] = []

    def start(self, config: Mapping[str, str]) -> None:
        self.starts.append(dict(config))

    def task_class(self) -> type[SourceTask]:
        return _NoTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return (
            ConfigDef()
            .define("secret", ConfigType.PASSWORD, "")
            .define("plain", ConfigType.STRING, "")
            .define("size", ConfigType.INT, 1, validator=at_least(1))
        )


class _NoTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None: ...

    def poll(self) -> Any:
        return None

    def stop(self) -> None: ...
