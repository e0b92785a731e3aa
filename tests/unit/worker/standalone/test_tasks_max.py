"""A connector that returns more task configurations than tasks.max."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from connect import ConfigDef, ConnectError, SourceConnector, SourceRecord, SourceTask
from worker.config.worker_config import WorkerConfig
from worker.standalone.herder import StandaloneHerder


class Idle(SourceTask):
    def start(self, config: Mapping[str, str]) -> None: ...

    def poll(self) -> Sequence[SourceRecord] | None:
        return None

    def stop(self) -> None: ...


class Greedy(SourceConnector):
    def start(self, config: Mapping[str, str]) -> None: ...

    def task_class(self) -> type[SourceTask]:
        return Idle

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{} for _ in range(max_tasks + 1)]

    def stop(self) -> None: ...

    def config_def(self) -> ConfigDef:
        return ConfigDef()


CONFIG = {"connector.class": f"{__name__}:Greedy", "tasks.max": "2"}
REFUSAL = (
    "The connector greedy has generated 3 tasks, which is greater than 2, the maximum number of tasks it is configured to create."
)


@pytest.fixture
def herder(tmp_path: Path) -> Iterator[StandaloneHerder]:
    props = {
        "key.converter": "String",
        "value.converter": "String",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "bootstrap.servers": "localhost:1",
        "task.executors": "0",
    }
    herder = StandaloneHerder(WorkerConfig.standalone(props))
    yield herder
    herder.close(5.0)


@pytest.mark.parametrize("enforce", [None, "true"])
def test_too_many_tasks_are_rejected(herder: StandaloneHerder, enforce: str | None) -> None:
    config = CONFIG if enforce is None else {**CONFIG, "tasks.max.enforce": enforce}
    with pytest.raises(ConnectError) as raised:
        herder.put_connector("greedy", config, replace=False)
    assert raised.value.message == REFUSAL
    assert herder.task_infos("greedy") == []


def test_too_many_tasks_start_with_a_warning_if_the_maximum_is_not_enforced(
    herder: StandaloneHerder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "worker.executors.task_configs"):
        info, _ = herder.put_connector("greedy", {**CONFIG, "tasks.max.enforce": "false"}, replace=False)
    assert [task.task for task in info.tasks] == [0, 1, 2]
    messages = [r.getMessage() for r in caplog.records if r.name == "worker.executors.task_configs"]
    assert messages == [f"{REFUSAL} They start nevertheless, because tasks.max.enforce=false"]
