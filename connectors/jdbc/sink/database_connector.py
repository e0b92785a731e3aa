"""What the sink connectors of all faces share: how a configuration is checked and tried, and that all tasks have it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from connect.config.definition import ConfigValue
from connect.connector import SinkConnector
from connect.errors import ConfigError
from connectors.jdbc.config_checks import add_cross_key_errors, add_error_of, has_errors
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.sink.writer_config import SinkSettings

_FILES = ("sqlite", "duckdb")


class DatabaseSink(SinkConnector):
    """Writes topics into tables."""

    needs_schema = True

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    @abstractmethod
    def problems(self, values: Mapping[str, Any], config: Mapping[str, str]) -> list[tuple[str, str]]:
        """What is wrong with keys that are each right by themselves, as (key, text). A wrong key is None in ``values``."""

    @abstractmethod
    def settings(self, config: Mapping[str, str]) -> SinkSettings:
        """What the engine is told. Raises ConfigError."""

    def start(self, config: Mapping[str, str]) -> None:
        self.settings(config)
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs beside the tasks."""

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return add_cross_key_errors(
            super().check_config(config), lambda values: self.problems(values, config), lambda: self.settings(config)
        )

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then connects. A database in a file is not opened: that would create it, or wait for its lock."""
        values = self.check_config(config)
        return values if has_errors(values) else add_error_of(values, lambda: _try_out(self.settings(config).connection))


def _try_out(connection: ConnectionSettings) -> None:
    """Raises ConnectError when the database cannot be used."""
    url = connection.target.url
    if url.get_backend_name() in _FILES:
        folder = Path(url.database or ".").absolute().parent
        if url.database and not url.database.startswith(("file:", ":")) and not folder.is_dir():
            raise ConfigError.invalid("connection.url", connection.target.label, f"there is no folder {folder}")
        return
    database = Database(
        ConnectionSettings(connection.target, attempts=1, statement_timeout_ms=connection.statement_timeout_ms, pool_size=1)
    )
    try:
        database.session().close()
    finally:
        database.close()
