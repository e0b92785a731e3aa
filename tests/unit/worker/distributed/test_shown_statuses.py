"""Statuses of the status topic as REST shows them, and how long they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from worker.distributed.shown_statuses import ShownStatuses
from worker.model import ConnectorStatus, State, Status
from worker.storage.config_state import ConfigEntry, ConfigState

RUNNING = Status(State.RUNNING, "w:1")


def stored(name: str, tasks: int = 1) -> ConnectorStatus:
    return ConnectorStatus(name, RUNNING, [(number, RUNNING) for number in range(tasks)], "unknown")


def state(**task_counts: int) -> ConfigState:
    return ConfigState(1, None, {name: ConfigEntry({"connector.class": name}, task_count=n) for name, n in task_counts.items()})


class Types:
    def __init__(self) -> None:
        self.asked: list[str | None] = []
        self.type = "sink"

    def __call__(self, config: Mapping[str, str | None]) -> str:
        self.asked.append(config.get("connector.class"))
        return self.type


def test_status_is_kept_until_it_or_the_configuration_changes() -> None:
    types = Types()
    shown = ShownStatuses(types)
    before, configs = [stored("a", 2), stored("b")], state(a=2, b=1)
    first = shown.of(before, configs)
    assert [(one.name, one.type, len(one.tasks)) for one in first] == [("a", "sink", 2), ("b", "sink", 1)]
    later = replace(configs, offset=2)
    assert all(one is other for one, other in zip(shown.of(before, later), first, strict=True))
    assert types.asked == ["a", "b"]
    # A new status, and a new configuration.
    changed = replace(before[0], connector=Status(State.PAUSED, "w:1"))
    types.type = "source"
    fewer = ConfigState(3, None, {**configs.entries, "b": ConfigEntry({"connector.class": "b2"}, task_count=0)})
    second = shown.of([changed, before[1]], fewer)
    assert [(one.connector.state, one.type, len(one.tasks)) for one in second] == [
        (State.PAUSED, "source", 2),
        (State.RUNNING, "source", 0),
    ]
    assert types.asked == ["a", "b", "a", "b2"]


def test_plugin_that_is_installed_later_gives_its_connectors_a_type() -> None:
    types = Types()
    types.type = "unknown"
    shown, statuses, configs = ShownStatuses(types), [stored("a")], state(a=1)
    assert shown.of(statuses, configs)[0].type == "unknown"
    types.type = "sink"
    assert shown.of(statuses, configs)[0].type == "sink"


def test_removed_connectors_are_forgotten() -> None:
    shown = ShownStatuses(Types())
    shown.of([stored("a"), stored("b"), stored("c")], state(a=1, b=1, c=1))
    assert [one.name for one in shown.of([stored("c")], state(c=1))] == ["c"]
    assert list(shown._known) == ["c"]
    # One whose configuration was not read yet.
    assert [(one.name, len(one.tasks)) for one in shown.of([stored("d", 2)], state(c=1))] == [("d", 2)]
