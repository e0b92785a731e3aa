"""The SQLite source connector: validates with the file, and runs a single task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.errors import BadRequestError, ConfigError
from connectors.cdc.connector import ChangeSource
from connectors.sqlite.capture import SqliteCapture
from connectors.sqlite.config import SqliteConfig, parse_config
from connectors.sqlite.config_keys import config_def
from connectors.sqlite.offsets import SEQUENCE, parse_offset
from connectors.sqlite.task import SqliteSourceTask
from connectors.sqlite.unsupported_keys import OPEN_PREFIXES, check_dynamic_keys

if TYPE_CHECKING:
    from connect.external_system import ExternalSystem


class SqliteSource(ChangeSource):
    """Captures changes of a SQLite database in Debezium's format, which has no connector for it."""

    open_prefixes = OPEN_PREFIXES
    server_key = "database.file"

    def parse(self, config: Mapping[str, str]) -> SqliteConfig:
        return parse_config(config)

    def task_class(self) -> type[SqliteSourceTask]:
        return SqliteSourceTask

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_keys(self, config: Mapping[str, str]) -> Iterable[ConfigValue]:
        return check_dynamic_keys(config)

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = super().check_config(config)
        known = {value.name: value for value in values}
        if not any(value.errors for value in values):
            try:
                parse_config(config)  # rules of single keys that are more than a pattern
            except ConfigError as e:
                known[e.key if e.key in known else self.server_key].errors.append(e.message)
        return values

    def check_on_server(self, config: Mapping[str, str]) -> None:
        """Checks whether the file is a database, and has the tables."""
        capture = SqliteCapture(parse_config(config), None)
        try:
            capture.check()
        finally:
            capture.disconnect()
            capture.sessions.interrupt.close()

    def external_system(self, config: Mapping[str, str]) -> ExternalSystem:
        from connectors.sqlite.external_system import SqliteSystem

        return SqliteSystem(config)

    def check_offset(self, offset: Mapping[str, Any]) -> None:
        """Changes before the stored offset are deleted, so only a later or the same change can be set."""
        if parse_offset(offset).position is None:
            raise BadRequestError(f"{SEQUENCE} of the offset is missing")
