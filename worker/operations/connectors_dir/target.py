"""The herder's operations that ``connectors.dir`` uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from worker.model import Origin, TargetState
from worker.operations.history.versions import Config, History


@dataclass(frozen=True, slots=True)
class HerderTarget:
    """Implements :class:`worker.operations.connectors_dir.sync.DirectoryTarget`. ``put_from`` creates or replaces a connector,
    ``delete_from`` deletes one; the herder records the origin of the change."""

    put_from: Callable[[Origin, str, Config, TargetState | None], object]
    delete_from: Callable[[Origin, str], object]
    given_configs: Callable[[], Mapping[str, Config]]
    history: History
    may_apply: Callable[[], bool] = lambda: True
    """Returns, in a cluster, whether this worker is the leader and knows all configurations."""

    def applies_files(self) -> bool:
        return self.may_apply()

    def configs(self) -> Mapping[str, Config]:
        return self.given_configs()

    def managed(self) -> Collection[str]:
        return self.history.managed()

    def put(self, name: str, config: Config, target_state: TargetState | None) -> None:
        self.put_from(Origin.DIRECTORY, name, config, target_state)

    def adopt(self, name: str, config: Config) -> None:
        self.history.record(name, config, Origin.DIRECTORY)

    def delete(self, name: str) -> None:
        self.delete_from(Origin.DIRECTORY, name)
