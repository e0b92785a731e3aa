"""The connection test of the Spark sink: whether its tables can be reached, without a JVM."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from connect.errors import ConfigError, ConnectError
from connect.external_system import (
    MAX_COLLECTIONS,
    ConnectionStep,
    DataCollection,
    error_finding,
    regex_entry,
)
from connect.paths import local_path, path_rules
from connect.suggestions import list_names
from connectors.spark.config import SparkSinkConfig

_LOCATION = "table.location"
_NEEDS_SPARK = "the tables of a catalog are read through Spark, which a test does not start"

# Arrow and Hadoop resolve hosts themselves, past the worker's connection.allow.addresses.
_IS_REMOTE = "a test contacts no object store, because Spark's clients do not check the worker's address rules"


class LakeTables:
    """Implements :class:`connect.external_system.ExternalSystem`."""

    def __init__(self, config: SparkSinkConfig) -> None:
        self._config = config

    def test_connection(self) -> Iterator[ConnectionStep]:
        if self._config.catalog:
            yield ConnectionStep("Catalog", _NEEDS_SPARK, is_skipped=True)
            return
        path = local_path(self._config.location)
        if path is None:
            yield ConnectionStep("Location", _IS_REMOTE, is_skipped=True)
            return
        step = _check_directory(path)
        yield step
        if step.findings:
            return
        try:
            names = self._names()
        except ConnectError as e:
            yield ConnectionStep("Tables", findings=(error_finding("location-not-readable", e.message, _LOCATION),))
            return
        detail = f"{len(names)} in {self._config.location}{': ' + list_names(names) if names else ''}"
        yield ConnectionStep("Tables", detail)

    def data_collections(self) -> Sequence[DataCollection]:
        if self._config.catalog:
            raise ConfigError(f"The tables of table.catalog cannot be listed: {_NEEDS_SPARK}", key="table.catalog")
        path = local_path(self._config.location)
        if path is None:
            raise ConfigError(f"The tables of {self._config.location} cannot be listed: {_IS_REMOTE}", key=_LOCATION)
        path_rules().require(path, _LOCATION)
        names = self._names()[: MAX_COLLECTIONS + 1]
        return [DataCollection(name, regex_entry(name), f"{self._config.table_format} table") for name in names]

    def cancel(self) -> None:
        """Does nothing: only directories of this machine are read."""

    def close(self) -> None:
        """Does nothing: there is nothing to release."""

    def _names(self) -> list[str]:
        # Imported here because a class is asked for its keys without pyarrow.
        from connectors.spark.tables.find_tables import find_tables

        return find_tables(self._config, None)


def _check_directory(path: str) -> ConnectionStep:
    folder = Path(path).absolute()
    # Path.exists raises an error for what a directory without permission contains.
    existing = next(one for one in (folder, *folder.parents) if os.path.exists(one))
    problem, advice = "", f"Choose another {_LOCATION}, or change the permissions"
    if not path_rules().allows(folder):
        problem, advice = f"the path {path} is not allowed on this worker", "See allowed.paths in the worker's configuration"
    elif not existing.is_dir():
        problem = f"{existing} is not a directory"
    elif not os.access(existing, os.R_OK | os.W_OK | os.X_OK):
        problem = f"the worker's user may not write in {existing}"
    if problem:
        return ConnectionStep("Location", findings=(error_finding("location-not-writable", problem, _LOCATION, advice),))
    return ConnectionStep("Location", f"{path} {'exists' if existing == folder else 'will be created'} and is writable")
