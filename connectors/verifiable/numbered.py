"""Base classes of connectors that create the maximum number of tasks and number them."""

from __future__ import annotations

from collections.abc import Mapping

from connect.config.definition import ConfigDef
from connect.connector import Connector, ExactlyOnceSupport, SourceConnector
from connectors.verifiable.config import ID


class NumberedTasksConnector(Connector):
    """Each task gets the connector's configuration with its number as ``id``."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._config, ID: str(task)} for task in range(max_tasks)]

    def stop(self) -> None:
        """Does nothing: only the tasks run."""


class NumberedTasksSource(NumberedTasksConnector, SourceConnector):
    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED
