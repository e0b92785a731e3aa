"""Defaults, required keys, and derived values of worker configurations."""

from __future__ import annotations

import os

import pytest

from connect import ConfigError
from worker.config.worker_config import WorkerConfig, split_listener

WORKER = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}


def test_worker_defaults_are_apaches() -> None:
    config = WorkerConfig.standalone(WORKER)
    assert config.bootstrap_servers == ("localhost:9092",)
    assert config.offset_flush_interval_ms == 60000
    assert config.offset_flush_timeout_ms == 5000
    assert config.task_shutdown_graceful_timeout_ms == 5000
    assert config.listeners == ("http://:8083",)
    assert config.admin_listeners is None
    assert config.topic_creation_enable


@pytest.mark.parametrize(("cores", "executors"), [(1, 3), (2, 3), (16, 16)])
def test_a_worker_has_one_executor_per_core_and_at_least_three(
    monkeypatch: pytest.MonkeyPatch, cores: int, executors: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    assert WorkerConfig.standalone(WORKER).task_executors == executors
    assert WorkerConfig.standalone({**WORKER, "task.executors": "1"}).task_executors == 1


@pytest.mark.parametrize("key", ["key.converter", "value.converter", "offset.storage.file.filename"])
def test_required_worker_keys(key: str) -> None:
    with pytest.raises(ConfigError, match=f'Missing required configuration "{key}"'):
        WorkerConfig.standalone({name: value for name, value in WORKER.items() if name != key})


def test_worker_id_is_the_advertised_address() -> None:
    assert WorkerConfig.standalone({**WORKER, "listeners": "http://myhost:1234"}).worker_id == "myhost:1234"
    advertised = {"listeners": "http://0.0.0.0:1", "rest.advertised.host.name": "out", "rest.advertised.port": "2"}
    assert WorkerConfig.standalone({**WORKER, **advertised}).worker_id == "out:2"


def test_listeners() -> None:
    assert split_listener("http://:8083") == ("http", "", 8083)
    assert split_listener("HTTPS://[::1]:1") == ("https", "::1", 1)
    for wrong in ("localhost:8083", "http://host", "ftp://host:1", "http://host:port"):
        with pytest.raises(ConfigError, match="listeners"):
            split_listener(wrong)


def test_keys_of_admin_listeners_are_not_those_of_admin_clients() -> None:
    props = {
        "key.converter": "String",
        "value.converter": "String",
        "offset.storage.file.filename": "offsets",
        "admin.listeners": "https://:8443",
        "admin.listeners.https.ssl.keystore.location": "x",
        "admin.retries": "3",
    }
    assert WorkerConfig.standalone(props).with_prefix("admin.") == {"retries": "3"}
