"""A source whose external system does what a test says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence

from connect import ConfigDef, ConfigType
from connect.external_system import ConnectionStep, DataCollection, EntryForm
from tests.unit.worker.executors.plugins import ScriptedConnector

PATH = f"{__name__}:ScriptedSource"
PLAIN = "tests.unit.worker.executors.plugins:ScriptedConnector"


class ScriptedSystem:
    """``steps`` and ``collections`` are what it returns; the test sets them before the call."""

    steps: Callable[[Mapping[str, str]], Iterator[ConnectionStep]]
    collections: Callable[[Mapping[str, str]], Sequence[DataCollection]]
    cancelled = threading.Event()
    closed = 0

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = config

    def test_connection(self) -> Iterator[ConnectionStep]:
        return type(self).steps(self._config)

    def data_collections(self) -> Sequence[DataCollection]:
        return type(self).collections(self._config)

    def cancel(self) -> None:
        self.cancelled.set()

    def close(self) -> None:
        type(self).closed += 1


class ScriptedSource(ScriptedConnector):
    collection_keys = {"tables": EntryForm.NAME}

    def config_def(self) -> ConfigDef:
        return ConfigDef().define("door", ConfigType.PASSWORD, "", doc="A secret by its type.")

    def external_system(self, config: Mapping[str, str]) -> ScriptedSystem:
        return ScriptedSystem(config)
