"""Startup warnings about keys of a worker's file that have no effect."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from connect.config.properties import read_properties
from worker.config.startup_warnings import UNUSED_KEYS, find_startup_warnings
from worker.config.worker_config import WorkerConfig, standalone_config_def
from worker.standalone.herder import StandaloneHerder

ROOT = Path(__file__).parents[4]


def test_unknown_key_is_reported_with_the_nearest_name() -> None:
    assert find_startup_warnings({"offset.flush.intervall.ms": "1"}) == [
        "Ignoring unknown setting offset.flush.intervall.ms; did you mean offset.flush.interval.ms?"
    ]
    assert find_startup_warnings({"sasl.mechanisms": "PLAIN"}) == [
        "Ignoring unknown setting sasl.mechanisms; did you mean sasl.mechanism?"
    ]
    assert find_startup_warnings({"zzzzzz": "secret"}) == ["Ignoring unknown setting zzzzzz"]


@pytest.mark.parametrize(
    "key",
    [
        "bootstrap.servers",
        "client.id",
        "group.id",
        "linger.ms",
        "acks",
        "producer.lingr.ms",
        "consumer.max.poll.records",
        "key.converter.schemas.enable",
        "header.converter.x",
        "config.providers.file.class",
        "ssl.truststore.location",
        "sasl.jaas.config",
    ],
)
def test_keys_of_worker_clients_and_known_prefixes_give_no_warning(key: str) -> None:
    assert find_startup_warnings({key: "x"}) == []


def test_standalone_worker_warns_about_a_distributed_key() -> None:
    (warning,) = find_startup_warnings({"offset.storage.topic": "connect-offsets"})
    assert warning == "Ignoring setting offset.storage.topic: it applies to distributed workers only"


def test_distributed_worker_warns_about_keys_it_does_not_use() -> None:
    assert (
        find_startup_warnings({"offset.storage.topic": "o", "group.id": "g", "inter.worker.key.ttl.ms": "1"}, distributed=True)
        == []
    )
    assert find_startup_warnings({"offset.storage.min.insync.replicas": "2"}, distributed=True) == []
    assert find_startup_warnings({"offset.storage.file.filename": "x"}, distributed=True) == [
        "Ignoring setting offset.storage.file.filename: it applies to standalone workers only"
    ]
    assert find_startup_warnings(
        {"config.storage.partitions": "3", "status.storage.cleanup.policy": "delete"}, distributed=True
    ) == [
        "Ignoring setting config.storage.partitions: this topic always has one partition",
        "Ignoring setting status.storage.cleanup.policy: these topics are always compacted",
    ]
    assert find_startup_warnings({"ofset.storage.topic": "o"}, distributed=True) == [
        "Ignoring unknown setting ofset.storage.topic; did you mean offset.storage.topic?"
    ]
    (warning,) = find_startup_warnings({"inter.worker.key.size": "256"})
    assert warning == "Ignoring setting inter.worker.key.size: it applies to distributed workers only"


def test_unused_keys_are_reported_unless_set_to_their_default() -> None:
    values = {
        "metrics.recording.level": ("INFO", "DEBUG"),
        "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter", "x"),
    }
    assert set(values) == UNUSED_KEYS
    for key in UNUSED_KEYS:
        default, other = values[key]
        assert find_startup_warnings({key: default}) == []
        (warning,) = find_startup_warnings({key: other})
        assert warning.startswith(f"Ignoring setting {key}: this release does not use it")
    assert find_startup_warnings({"metrics.context.region": "x"}) == [
        "Ignoring setting metrics.context.region: this release does not use it"
    ]
    assert find_startup_warnings({"admin.listeners": "", "listeners.https.ssl.client.auth": "none"}) == []


def test_config_provider_without_class_is_reported() -> None:
    props = {"config.providers": "file, vault", "config.providers.file.class": "FileConfigProvider"}
    assert find_startup_warnings(props) == [
        "config.providers lists vault, but config.providers.vault.class is missing; references to it will not be resolved"
    ]


def test_documentation_marks_exactly_the_unused_keys() -> None:
    keys = standalone_config_def().keys
    assert {name for name, key in keys.items() if "Not used yet" in key.doc} == UNUSED_KEYS


def test_example_worker_files_give_no_warning() -> None:
    assert find_startup_warnings(dict(read_properties(ROOT / "configs/connect-standalone.properties"))) == []
    assert find_startup_warnings(dict(read_properties(ROOT / "configs/connect-distributed.properties")), distributed=True) == []


def test_worker_logs_warnings_once_at_startup(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    props = {
        "key.converter": "String",
        "value.converter": "String",
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "task.executors": "0",
        "bootstrap.servers": "localhost:1",
        "topic.tracking.enabled": "x",
        "plugin.path": str(tmp_path / "none"),
    }
    herder = StandaloneHerder(WorkerConfig.standalone(props))
    with caplog.at_level(logging.WARNING, "worker.standalone.herder"):
        herder.start()
    herder.close(1.0)
    logged = [r.getMessage() for r in caplog.records if r.name == "worker.standalone.herder"]
    assert logged == [
        "Ignoring unknown setting topic.tracking.enabled; did you mean topic.tracking.enable?",
        f"plugin.path: {tmp_path / 'none'} is not a directory; ignoring it",
    ]
