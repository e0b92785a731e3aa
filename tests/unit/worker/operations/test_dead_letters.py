"""Requests about dead letters get resolved configurations, and their answers contain no secrets of these (promise 9)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from connect.errors import BadRequestError
from worker.config.providers import ConfigProviders
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs
from worker.config.secrets import SecretMask
from worker.executor import ConnectorSpec, Executor
from worker.operations.dead_letters import DeadLetterRequests


class _Executor:
    """Answers with what the replay's transformation inserts."""

    def dead_letters(self, spec: ConnectorSpec, request: Mapping[str, Any]) -> dict[str, Any]:
        inserted = request["transforms"]["transforms.add.static.value"]
        assert inserted == "tricycle-77"
        return {"letters": [{"changed": {"value": {"payload": {"key": inserted}}}, "offset": 5}], "checked": 1}


def _requests(tmp_path: Path) -> DeadLetterRequests:
    (tmp_path / "s.properties").write_text("key=tricycle-77\n")
    props = {
        "config.providers": "file",
        "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
    }
    values = ResolvedConfigs(ConfigProviders.from_worker(props, SecretMask()), ReloadTimer(lambda _, __: None))
    return DeadLetterRequests(cast(Executor, _Executor()), values, SecretMask())


def test_secrets_that_a_transformation_inserts_are_hidden(tmp_path: Path) -> None:
    transforms = {"transforms": "add", "transforms.add.static.value": f"${{file:{tmp_path}/s.properties:key}}"}
    found = _requests(tmp_path).answer("c", {"a": "b"}, {"action": "replay", "transforms": transforms}, {})
    assert found == {"letters": [{"changed": {"value": {"payload": {"key": "[hidden]"}}}, "offset": 5}], "checked": 1}


def test_keys_that_are_not_those_of_transformations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadRequestError, match="topics does not belong to the transformations of a replay"):
        _requests(tmp_path).answer("c", {}, {"action": "replay", "transforms": {"topics": "t"}}, {})
