"""A source whose validation connects to a database and recommends its tables, as those of other vendors do."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from connect import ConfigDef, ConfigType, SourceConnector, SourceRecord, SourceTask
from connect.config.definition import Recommender
from connect.config.validators import one_of
from connect.errors import ConfigError

PATH = f"{__name__}:TablesSource"


class _Tables(Recommender):
    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        path = parsed.get("database")
        if not path:
            return []
        if not Path(path).is_file():
            raise ConfigError(f"No database at {path}", key=name)
        with sqlite3.connect(path) as connection:
            found = connection.execute("select name from sqlite_master where type = 'table' order by name")
            return [table for (table,) in found]


class _OnlyWithPause(Recommender):
    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return parsed.get("mode") == "poll"


class TablesSource(SourceConnector):
    def config_def(self) -> ConfigDef:
        table = ConfigDef()
        table.define("database", ConfigType.STRING, doc="File of the database.", dependents=["tables"])
        table.define("tables", ConfigType.LIST, "", doc="Tables to read.", recommender=_Tables())
        table.define(
            "mode", ConfigType.STRING, "once", doc="How to read.", validator=one_of("once", "poll"), dependents=["pause.ms"]
        )
        table.define("pause.ms", ConfigType.INT, 100, doc="Pause between two polls.", recommender=_OnlyWithPause())
        return table

    def task_class(self) -> type[SourceTask]:
        return TablesTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{}]

    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to prepare."""

    def stop(self) -> None:
        """Nothing to release."""


class TablesTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        """Nothing to prepare."""

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None:
        """Nothing to release."""
