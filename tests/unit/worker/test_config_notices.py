"""What a worker says at its start about keys that do nothing."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest

from connect.config.properties import read_properties
from connect.plugins import Kind, Plugins
from worker.config.plugin_path import environments_of, extend_python_path
from worker.config.startup_warnings import UNUSED, config_notices
from worker.config.worker_config import WorkerConfig, standalone_config_def
from worker.standalone.herder import StandaloneHerder

ROOT = Path(__file__).parents[3]


def test_an_unknown_key_is_told_with_the_nearest_name() -> None:
    assert config_notices({"offset.flush.intervall.ms": "1"}) == [
        "The setting offset.flush.intervall.ms is not known and is ignored; did you mean offset.flush.interval.ms?"
    ]
    assert config_notices({"sasl.mechanisms": "PLAIN"}) == [
        "The setting sasl.mechanisms is not known and is ignored; did you mean sasl.mechanism?"
    ]
    assert config_notices({"zzzzzz": "secret"}) == ["The setting zzzzzz is not known and is ignored"]


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
def test_keys_of_the_table_of_clients_and_below_prefixes_are_known(key: str) -> None:
    assert config_notices({key: "x"}) == []


def test_a_key_of_distributed_workers_is_told() -> None:
    (notice,) = config_notices({"offset.storage.topic": "connect-offsets"})
    assert notice == "The setting offset.storage.topic is of distributed workers: a standalone worker does not use it"


def test_a_distributed_worker_is_told_of_what_it_does_not_use() -> None:
    assert config_notices({"offset.storage.topic": "o", "group.id": "g", "inter.worker.key.ttl.ms": "1"}, distributed=True) == []
    assert config_notices({"offset.storage.min.insync.replicas": "2"}, distributed=True) == []
    assert config_notices({"offset.storage.file.filename": "x"}, distributed=True) == [
        "The setting offset.storage.file.filename is of standalone workers: a distributed worker does not use it"
    ]
    assert config_notices({"config.storage.partitions": "3", "status.storage.cleanup.policy": "delete"}, distributed=True) == [
        "The setting config.storage.partitions is ignored: this topic always has one partition",
        "The setting status.storage.cleanup.policy is ignored: these topics are always compacted",
    ]
    assert config_notices({"ofset.storage.topic": "o"}, distributed=True) == [
        "The setting ofset.storage.topic is not known and is ignored; did you mean offset.storage.topic?"
    ]
    (notice,) = config_notices({"inter.worker.key.size": "256"})
    assert notice == "The setting inter.worker.key.size is of distributed workers: a standalone worker does not use it"


def test_unused_keys_are_told_unless_they_spell_out_their_default() -> None:
    values = {
        "metrics.num.samples": ("2", "3"),
        "metrics.sample.window.ms": ("30000", "1"),
        "metrics.recording.level": ("INFO", "DEBUG"),
        "metric.reporters": ("org.apache.kafka.common.metrics.JmxReporter", "x"),
    }
    assert set(values) == UNUSED
    for key in UNUSED:
        default, other = values[key]
        assert config_notices({key: default}) == []
        (notice,) = config_notices({key: other})
        assert notice.startswith(f"The setting {key} is not used by this release")
    assert config_notices({"metrics.context.region": "x"}) == ["The setting metrics.context.region is not used by this release"]
    assert config_notices({"admin.listeners": "", "listeners.https.ssl.client.auth": "none"}) == []


def test_a_config_provider_without_a_class_is_told() -> None:
    props = {"config.providers": "file, vault", "config.providers.file.class": "FileConfigProvider"}
    assert config_notices(props) == [
        "config.providers lists vault, but there is no config.providers.vault.class: references to it are left as they are"
    ]


def test_the_texts_of_unused_keys_say_so_and_those_of_others_do_not() -> None:
    keys = standalone_config_def().keys
    assert {name for name, key in keys.items() if "Not used yet" in key.doc} == UNUSED


def test_the_worker_files_that_come_along_give_no_notice() -> None:
    assert config_notices(dict(read_properties(ROOT / "configs/connect-standalone.properties"))) == []
    assert config_notices(dict(read_properties(ROOT / "configs/connect-distributed.properties")), distributed=True) == []


def test_a_worker_warns_once_at_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
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
    told = [r.getMessage() for r in caplog.records if r.name == "worker.standalone.herder"]
    assert told == [
        "The setting topic.tracking.enabled is not known and is ignored; did you mean topic.tracking.enable?",
        f"plugin.path: {tmp_path / 'none'} is no folder and is left out",
    ]


def test_a_class_in_a_folder_of_the_plugin_path_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "far_plugin.py").write_text(
        "from connect.transforms.api import Transformation\n\nclass Same(Transformation):\n"
        "    def apply(self, record):\n        return record\n"
    )
    assert extend_python_path([str(tmp_path), str(tmp_path)]) == []
    assert sys.path[-1] == str(tmp_path)
    assert sys.path.count(str(tmp_path)) == 1
    desc = Plugins.discover().resolve(Kind.TRANSFORMATION, "far_plugin:Same")
    assert Plugins.discover().load(desc).__name__ == "Same"


def test_a_virtual_environment_in_the_plugin_path_is_left_to_connectors_that_ask_for_it(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").touch()
    assert extend_python_path([str(tmp_path)]) == []
    assert str(tmp_path) not in sys.path
    assert environments_of([str(tmp_path), str(tmp_path.parent)]) == [tmp_path]


def test_packages_installed_into_a_folder_bring_their_entry_points(tmp_path: Path) -> None:
    info = tmp_path / "far-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: far\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[connect.transforms]\nFarSame = far_plugin:Same\n")
    program = (
        "import sys; from worker.config.plugin_path import extend_python_path; extend_python_path([sys.argv[1]]);"
        "from connect.plugins import Kind, Plugins; print(Plugins.discover().resolve(Kind.TRANSFORMATION, 'FarSame').path)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.strip() == "far_plugin:Same"


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
