"""Questions of REST about external systems reach the executor with the values of config providers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from connect.errors import ConnectError
from worker.cancellation import Cancellation
from worker.config.providers import ConfigProviders
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import SystemQuestion
from worker.operations.external_systems import ask_about_system


class _Executor:
    """Answers what it was asked, or fails with the value of a provider."""

    fails = False

    def external_system(
        self, values: Mapping[str, str | None], question: SystemQuestion, secrets: Collection[str], cancellation: Cancellation
    ) -> dict[str, Any]:
        if self.fails:
            raise ConnectError(f"cannot reach {values['host']}")
        return {"values": dict(values), "question": question, "secrets": set(secrets)}


@pytest.fixture
def configs(tmp_path: Path) -> ResolvedConfigs:
    (tmp_path / "s.properties").write_text("key=tricycle-77\n")
    props = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    return ResolvedConfigs(ConfigProviders.from_worker(props, SecretMask()), ReloadTimer(lambda _, __: None))


def test_references_are_resolved_and_the_executor_learns_their_values(configs: ResolvedConfigs, tmp_path: Path) -> None:
    config, executor, mask = {"host": f"${{file:{tmp_path}/s.properties:key}}"}, _Executor(), SecretMask()

    def ask() -> dict[str, Any]:
        question = SystemQuestion.CONNECTION_TEST
        return ask_about_system(cast(Executor, executor), configs, mask, config, question, Cancellation())

    answer = ask()
    assert answer["values"] == {"host": "tricycle-77"}
    assert answer["secrets"] == {"tricycle-77"}  # the executor masks them in its answer
    executor.fails = True
    with pytest.raises(ConnectError, match=r"cannot reach \[hidden\]"):
        ask()
