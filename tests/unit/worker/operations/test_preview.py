"""Previews over REST contain no secrets of the configuration (promise 9)."""

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
from worker.model import PreviewRequest
from worker.operations.preview import preview_config


class _Executor:
    """Answers with a value of the configuration in every place."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails
        self.values: Mapping[str, str | None] = {}

    def preview(self, values: Mapping[str, str | None], request: PreviewRequest) -> dict[str, Any]:
        self.values = values
        secret = values["transforms.add.static.value"]
        if self.fails:
            raise ConnectError(f"cannot insert {secret}")
        return {"records": [{"fields": [{"path": "value.key", "value": f'"{secret}"'}], "count": 1, "error": None}]}


@pytest.fixture
def configs(tmp_path: Path) -> ResolvedConfigs:
    (tmp_path / "s.properties").write_text("key=tricycle-77\n")
    mask = SecretMask()
    props = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    return ResolvedConfigs(ConfigProviders.from_worker(props, mask), ReloadTimer(lambda name, is_due: None))


def test_secrets_are_hidden_in_records_and_in_errors(configs: ResolvedConfigs, tmp_path: Path) -> None:
    config = {"transforms.add.static.value": f"${{file:{tmp_path}/s.properties:key}}", "name": "c"}
    executor, mask = _Executor(), SecretMask()
    found = preview_config(cast(Executor, executor), configs, mask, config, PreviewRequest([1]))
    assert executor.values["transforms.add.static.value"] == "tricycle-77"
    assert found == {"records": [{"fields": [{"path": "value.key", "value": '"[hidden]"'}], "count": 1, "error": None}]}
    with pytest.raises(ConnectError, match=r"cannot insert \[hidden\]"):
        preview_config(cast(Executor, _Executor(fails=True)), configs, mask, config, PreviewRequest([1]))
