"""Answers about external systems over REST contain no values of config providers (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from connect.errors import ConnectError
from worker.config.providers import ConfigProviders
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import Executor
from worker.model import SystemQuestion
from worker.operations.external_systems import ask_about_system


class _Executor:
    """Answers with the value of a provider."""

    fails = False

    def external_system(self, values: Mapping[str, str | None], question: SystemQuestion) -> dict[str, Any]:
        secret = values["host"]
        if self.fails:
            raise ConnectError(f"cannot reach {secret}")
        if question is SystemQuestion.CONNECTION_TEST:
            return {"steps": [{"detail": f"connected to {secret}"}]}
        names = ["orders", f"x.{secret}"]
        return {"collections": [{"name": name, "entry": name} for name in names], "hidden": 1}


@pytest.fixture
def configs(tmp_path: Path) -> ResolvedConfigs:
    (tmp_path / "s.properties").write_text("key=tricycle-77\n")
    props = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    return ResolvedConfigs(ConfigProviders.from_worker(props, SecretMask()), ReloadTimer(lambda _, __: None))


def test_references_are_resolved_and_their_values_hidden(configs: ResolvedConfigs, tmp_path: Path) -> None:
    config, executor = {"host": f"${{file:{tmp_path}/s.properties:key}}"}, _Executor()

    def ask(question: SystemQuestion) -> dict[str, Any]:
        return ask_about_system(cast(Executor, executor), configs, SecretMask(), config, question)

    assert ask(SystemQuestion.CONNECTION_TEST) == {"steps": [{"detail": "connected to [hidden]"}]}
    assert ask(SystemQuestion.DATA_COLLECTIONS) == {"collections": [{"name": "orders", "entry": "orders"}], "hidden": 2}
    executor.fails = True
    with pytest.raises(ConnectError, match=r"cannot reach \[hidden\]"):
        ask(SystemQuestion.CONNECTION_TEST)
