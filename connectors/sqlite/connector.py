"""The SQLite source connector: validates with the file, and runs a single task."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.errors import BadRequestError, ConfigError, ConnectError
from connectors.cdc.connector import ChangeSource, check_given_offset
from connectors.sqlite.capture import SqliteCapture
from connectors.sqlite.config import parse_config
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

    def require_valid(self, config: Mapping[str, str]) -> None:
        parse_config(config)

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

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks new offsets. Changes before the stored offset are deleted, so only a later or the same change can be set."""
        prefix = parse_config(config).topic_prefix
        for partition, offset in offsets.items():
            if not check_given_offset(partition, offset, prefix):
                continue
            assert offset is not None
            try:
                position = parse_offset(offset).position
            except ConnectError as e:
                raise BadRequestError(e.message) from e
            if position is None:
                raise BadRequestError(f"{SEQUENCE} of the offset is missing")
        return True
