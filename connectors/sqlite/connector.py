"""The SQLite source connector: validates with the file, and runs a single task."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.external_system import EntryForm
from connect.version import sluice_version
from connectors.cdc.validation import check_given_offset, with_findings
from connectors.sqlite.capture import SqliteCapture
from connectors.sqlite.config import parse_config
from connectors.sqlite.config_keys import config_def
from connectors.sqlite.offsets import SEQUENCE, parse_offset
from connectors.sqlite.task import SqliteSourceTask
from connectors.sqlite.unsupported_keys import OPEN_PREFIXES, check_dynamic_keys

_FILE = "database.file"


class SqliteSource(SourceConnector):
    """Captures changes of a SQLite database in Debezium's format, which has no connector for it."""

    version = sluice_version()
    most_tasks = 1
    producer_defaults = MappingProxyType({"batch.size": "1000000", "linger.ms": "20"})
    open_prefixes = OPEN_PREFIXES
    collection_keys = MappingProxyType(
        dict.fromkeys(("table.include.list", "table.exclude.list", "snapshot.include.collection.list"), EntryForm.REGEX)
    )

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def start(self, config: Mapping[str, str]) -> None:
        parse_config(config)
        self._config = dict(config)

    def task_class(self) -> type[SqliteSourceTask]:
        return SqliteSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        """Does nothing: the task owns all connections."""

    def config_def(self) -> ConfigDef:
        return config_def()

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        values = with_findings(super().check_config(config), check_dynamic_keys(config))
        known = {value.name: value for value in values}
        if not any(value.errors for value in values):
            try:
                parse_config(config)  # rules of single keys that are more than a pattern
            except ConfigError as e:
                known[e.key if e.key in known else _FILE].errors.append(e.message)
        return values

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, then the file: whether it is a database, and has the tables."""
        values = self.check_config(config)
        known = {value.name: value for value in values}
        if any(value.errors for value in values):
            return values
        capture = SqliteCapture(parse_config(config), None)
        try:
            capture.check()
        except ConfigError as e:
            known[e.key if e.key in known else _FILE].errors.append(e.message)
        except ConnectError as e:
            known[_FILE].errors.append(e.message)
        finally:
            capture.disconnect()
            capture.sessions.interrupt.close()
        return values

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks new offsets. Changes before the stored offset are deleted, so only a later or the same change can be set."""
        prefix = parse_config(config).topic_prefix
        for partition, offset in offsets.items():
            if offset is None or not check_given_offset(partition, offset, prefix):
                continue
            try:
                position = parse_offset(offset).position
            except ConnectError as e:
                raise BadRequestError(e.message) from e
            if position is None:
                raise BadRequestError(f"{SEQUENCE} of the offset is missing")
        return True
