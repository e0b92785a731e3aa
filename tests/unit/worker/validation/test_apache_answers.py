"""What Apache Kafka Connect 4.3.1 said about configurations that are wrong in unusual ways.

One line of ``apache_answers.jsonl`` is one configuration: ``worker`` (a key of WORKERS), ``config``, and what the worker said:

- ``error``: what it refused it with; or
- ``error_count``, ``size`` (how many keys there are), and ``rows``: the keys that are not as in the answer to PLAIN[``plain``],
  in their order, each with its name, default, value, whether it is visible, errors and, for versions, what is recommended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connect.plugins import Plugins
from worker.config.worker_config import WorkerConfig
from worker.validation import DiscoveredPluginIndex, cluster_check, validate

JSON = "org.apache.kafka.connect.json.JsonConverter"
CONVERTERS = {"key.converter": JSON, "value.converter": JSON}
STANDALONE = {**CONVERTERS, "offset.storage.file.filename": "offsets"}
DISTRIBUTED = {
    **CONVERTERS,
    "group.id": "workers",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}
_OVERRIDE = "connector.client.config.override."
WORKERS: Mapping[str, Mapping[str, str]] = {
    "sa": STANDALONE,
    "sa-none": {**STANDALONE, f"{_OVERRIDE}policy": "None"},
    "sa-prin": {**STANDALONE, f"{_OVERRIDE}policy": "Principal"},
    "sa-allow": {**STANDALONE, f"{_OVERRIDE}policy": "Allowlist", f"{_OVERRIDE}allowlist": "batch.size,fetch.min.bytes"},
    "di": DISTRIBUTED,
    "di-eos": {**DISTRIBUTED, "exactly.once.source.support": "enabled"},
}
PLAIN = {
    "source": {"name": "x", "topic": "t", "file": "f", "connector.class": "FileStreamSource"},
    "sink": {"name": "x", "topics": "t", "file": "f", "connector.class": "FileStreamSink"},
}
CASES = [json.loads(line) for line in Path(__file__).with_name("apache_answers.jsonl").read_text(encoding="utf-8").splitlines()]


@lru_cache
def plugin_index() -> DiscoveredPluginIndex:
    return DiscoveredPluginIndex(Plugins.discover())


def answer(worker: str, config: Mapping[str, str | None]) -> dict[str, Any]:
    props = WORKERS[worker]
    settings = WorkerConfig.standalone(props) if worker.startswith("sa") else WorkerConfig.for_cluster(props)
    check = None if settings.distributed is None else cluster_check(settings.distributed)
    return validate(config, settings, plugin_index(), check=check)


def rows(body: Mapping[str, Any]) -> list[list[Any]]:
    found = []
    for entry in body["configs"]:
        definition, value = entry["definition"], entry["value"]
        default = None if definition is None else definition["default_value"]
        row = [value["name"], default, value["value"], value["visible"], value["errors"]]
        found.append([*row, value["recommended_values"]] if value["name"].endswith("plugin.version") else row)
    return found


@lru_cache
def plain_rows(worker: str, kind: str) -> list[list[Any]]:
    return rows(answer(worker, PLAIN[kind]))


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_a_configuration_is_answered_as_by_apache(case: dict[str, Any]) -> None:
    if "error" in case:
        with pytest.raises(ConnectError) as caught:
            answer(case["worker"], case["config"])
        # What follows tells which connectors there are.
        assert caught.value.message.startswith(case["error"])
        return
    body = answer(case["worker"], case["config"])
    usual = plain_rows(case["worker"], case["plain"])
    assert [row for row in rows(body) if row not in usual] == case["rows"]
    assert (body["error_count"], len(body["configs"])) == (case["error_count"], case["size"])
