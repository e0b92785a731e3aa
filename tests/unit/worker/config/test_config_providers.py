"""Config providers of a worker: from its properties to its connectors, and to nobody else."""

from __future__ import annotations

import itertools
import json
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.config.providers.references import Expiry
from connect.errors import BadRequestError, ConfigError, ConnectError
from connect.plugins import Plugins
from connect.testing import ManualClock
from sluice.verify.pairs import read_worker_config
from tests.support.waiting import WAIT_S
from tests.unit.worker.config.rotating_provider import CONNECTOR, HERE, JSON, RecordingConnector, RotatingProvider
from worker.config.providers import ConfigProviders, resolve_with_worker
from worker.config.reload_timer import ReloadTimer
from worker.config.resolved_config import ResolvedConfigs, restore_references, restore_values
from worker.config.secrets import SecretMask
from worker.config.worker_config import WorkerConfig
from worker.executor import ConnectorFacts
from worker.executors.local import LocalExecutor
from worker.model import State, TargetState
from worker.operations.auto_restart import AutoRestart
from worker.standalone.connector import ConnectorDefinition, ConnectorDependencies, StandaloneConnector
from worker.standalone.herder import StandaloneHerder
from worker.standalone.services import StandaloneServices
from worker.storage.file_offset_store import OffsetFile

PROVIDER = {"config.providers": "p", "config.providers.p.class": f"{HERE}:RotatingProvider"}


@pytest.fixture(autouse=True)
def turned_back() -> Iterator[None]:
    RotatingProvider.reset()
    RecordingConnector.starts.clear()
    yield
    RotatingProvider.reset()


@pytest.fixture
def worker_props(tmp_path: Path) -> dict[str, str]:
    return {
        "key.converter": JSON,
        "value.converter": JSON,
        "offset.storage.file.filename": str(tmp_path / "offsets"),
        "task.executors": "0",
        **PROVIDER,
    }


@pytest.fixture
def herder(worker_props: dict[str, str]) -> Iterator[StandaloneHerder]:
    herder = StandaloneHerder(WorkerConfig.standalone(worker_props), worker_id="w:1")
    yield herder
    herder.close(5)


# --- the worker's own properties


def test_the_workers_own_properties_are_resolved(worker_props: dict[str, str]) -> None:
    RotatingProvider.values = {"converter": JSON, "user": "u"}
    config = WorkerConfig.standalone({**worker_props, "key.converter": "${p:converter}", "producer.client.id": "${p:a:user}-1"})
    assert (config.key_converter, config.with_prefix("producer.")) == (JSON, {"client.id": "u-1"})
    assert config.originals["producer.client.id"] == "u-1"


def test_commands_resolve_the_workers_file_and_a_connector(worker_props: dict[str, str]) -> None:
    RotatingProvider.values = {"converter": JSON, "user": "pl4nted"}
    mask = SecretMask()
    given = {**worker_props, "key.converter": "${p:converter}"}
    worker, config = resolve_with_worker(given, "w.properties", {"x": "${p:user}", "y": None}, "c", mask)
    assert (worker["key.converter"], config) == (JSON, {"x": "pl4nted", "y": None})
    assert mask.mask("a pl4nted") == "a [hidden]"
    assert RotatingProvider.closed == 1


def test_commands_can_import_from_the_plugin_path_of_the_workers_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file = tmp_path / "w.properties"
    file.write_text(f"plugin.path={tmp_path}\nkey.converter=String\n")
    assert read_worker_config(str(file)) == {"plugin.path": str(tmp_path), "key.converter": "String"}
    assert str(tmp_path) in sys.path


def test_a_providers_parameters_may_refer_to_other_providers(worker_props: dict[str, str], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    more = {
        "config.providers": "p, d",
        "config.providers.p.param.token": f"${{d:{tmp_path}:token}}",
        "config.providers.d.class": "DirectoryConfigProvider",
        "config.providers.d.param.allowed.paths": str(tmp_path),
    }
    config = WorkerConfig.standalone({**worker_props, **more})
    assert RotatingProvider.params == [{"token": "s3cret"}]
    assert config.providers.mask.mask("it is s3cret") == "it is [hidden]"


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"config.providers.p.class": "Nope"},
            "Invalid value Nope for configuration config.providers.p.class: Failed to find any class that implements "
            "ConfigProvider and which name matches Nope, available config providers are: ",
        ),
        (
            {"config.providers.p.class": "json:JSONDecoder"},
            "Invalid value json:JSONDecoder for configuration config.providers.p.class: json:JSONDecoder is no config provider",
        ),
        (
            {"config.providers.p.class": "file", "config.providers.p.param.allowed.paths": "x"},
            "Config provider 'p' (config.providers.p.param.*): Path x is not absolute",
        ),
        (
            {"key.converter": "${p:broken:x}"},
            "No answer from broken (config provider 'p', for ${p:broken:x} of key.converter)",
        ),
    ],
)
def test_a_provider_that_cannot_be_used_keeps_the_worker_from_starting(
    worker_props: dict[str, str], more: dict[str, str], message: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        WorkerConfig.standalone({**worker_props, **more})
    assert message in caught.value.message


def test_an_error_about_a_provided_value_is_masked_by_whoever_shows_it(worker_props: dict[str, str]) -> None:
    RotatingProvider.values = {"port": "abcdef"}
    mask = SecretMask()
    with pytest.raises(ConfigError) as caught:
        WorkerConfig.standalone({**worker_props, "rest.advertised.port": "${p:port}"}, mask)
    assert "abcdef" not in mask.mask(caught.value.message)
    assert "rest.advertised.port" in mask.mask(caught.value.message)


def test_without_a_class_references_stay_as_they_are(worker_props: dict[str, str]) -> None:
    del worker_props["config.providers.p.class"]
    config = WorkerConfig.standalone({**worker_props, "producer.client.id": "${p:x}"})
    assert config.with_prefix("producer.") == {"client.id": "${p:x}"}
    assert not config.providers


def test_providers_are_closed_with_the_worker(worker_props: dict[str, str]) -> None:
    StandaloneHerder(WorkerConfig.standalone(worker_props), worker_id="w:1").close(5)
    assert RotatingProvider.closed == 1


# --- connectors


def test_a_connector_gets_values_and_everybody_else_sees_references(
    herder: StandaloneHerder, caplog: pytest.LogCaptureFixture
) -> None:
    RotatingProvider.values = {"pw": "s3cretvalue", "size": "7"}
    given = {
        "connector.class": CONNECTOR,
        "secret": "${p:pw}",
        "plain": "jdbc:${p:pw}@x",
        "size": "${p:size}",
        "producer.override.sasl.jaas.config": "${p:pw}",
        "transforms": "",
    }
    with caplog.at_level(logging.DEBUG):
        info, _ = herder.put_connector("c", given, replace=False)
    assert dict(info.config) == {"name": "c", **given}
    assert RecordingConnector.starts[0] == {
        **given, "name": "c", "secret": "s3cretvalue", "plain": "jdbc:s3cretvalue@x", "size": "7",
        "producer.override.sasl.jaas.config": "s3cretvalue",
    }  # fmt: skip
    answer = herder.validate(CONNECTOR, {**given, "name": "c"})
    shown = {config["value"]["name"]: config["value"]["value"] for config in answer["configs"]}
    assert answer["error_count"] == 0
    assert (shown["secret"], shown["plain"], shown["size"]) == ("[hidden]", "jdbc:${p:pw}@x", "${p:size}")
    assert shown["producer.override.sasl.jaas.config"] == "[hidden]"
    assert "s3cretvalue" not in json.dumps([answer, dict(herder.connector_info("c").config)]) + caplog.text
    assert dict(herder.patch_connector("c", {"size": "2"}).config) == {"name": "c", **given, "size": "2"}


def test_errors_tell_the_reference_and_not_the_value(herder: StandaloneHerder) -> None:
    RotatingProvider.values = {"bad": "s3cretvalue", "name": "s3cretvalue"}
    given = {"connector.class": CONNECTOR, "size": "${p:bad}", "plain": "${p:name}"}
    with pytest.raises(BadRequestError) as caught:
        herder.put_connector("c", given, replace=False)
    assert "Invalid value ${p:bad} for configuration size: Not a number of type INT" in caught.value.message
    assert "s3cretvalue" not in caught.value.message
    with pytest.raises(BadRequestError, match=r"plain=\[hidden\].* contains no connector type") as caught:
        herder.validate("x", {"plain": "${p:name}"})
    assert "s3cretvalue" not in caught.value.message


def test_what_a_plugin_raises_about_a_value_is_masked(herder: StandaloneHerder, monkeypatch: pytest.MonkeyPatch) -> None:
    RotatingProvider.values = {"pw": "s3cretvalue", "n": "-12345"}

    def fail(self: RecordingConnector, config: Any) -> Any:
        raise RuntimeError(f"no login with {config['secret']}")

    given = {"connector.class": CONNECTOR, "secret": "${p:pw}"}
    topics = {"topic.creation.default.partitions": "${p:n}", "topic.creation.default.replication.factor": "1"}
    with pytest.raises(ConfigError, match=r"^Invalid value \[hidden\] for configuration partitions"):
        herder.put_connector("c", {**given, **topics}, replace=False)
    monkeypatch.setattr(RecordingConnector, "validate", fail)
    with pytest.raises(ConnectError, match=r"^no login with \[hidden\]$"):
        herder.validate(CONNECTOR, {**given, "name": "c"})
    monkeypatch.undo()
    monkeypatch.setattr(RecordingConnector, "start", fail)
    with pytest.raises(ConnectError, match=r"^no login with \[hidden\]$"):
        herder.put_connector("c", given, replace=False)
    trace = herder.connector_status("c").connector.trace or ""
    assert trace.startswith("org.apache.kafka.connect.errors.ConnectException: RuntimeError: no login with [hidden]\n")
    assert "s3cretvalue" not in trace


def test_a_reference_that_nobody_knows_stays_with_a_warning(herder: StandaloneHerder, caplog: pytest.LogCaptureFixture) -> None:
    given = {"connector.class": CONNECTOR, "plain": "${p:a:x} ${q:x}", "secret": "${p:broken:x}"}
    with pytest.raises(ConfigError, match=r"^No answer from broken \(config provider 'p', for \$\{p:broken:x\} of secret\)$"):
        herder.put_connector("c", given, replace=False)
    herder.put_connector("c", {**given, "secret": ""}, replace=False)
    assert RecordingConnector.starts[0]["plain"] == "${p:a:x} ${q:x}"
    assert "Connector c: cannot resolve ${p:a:x} in plain: config provider 'p' has no key 'x' at a" in caplog.text
    assert caplog.text.count("cannot resolve") == 1
    assert "${q:x}" not in caplog.text


def test_every_start_looks_values_up_again(herder: StandaloneHerder) -> None:
    RotatingProvider.values = {"x": "first"}
    herder.put_connector("c", {"connector.class": CONNECTOR, "plain": "${p:x}"}, replace=False)
    RotatingProvider.values = {"x": "second"}
    herder.restart_connector("c", include_tasks=False, only_failed=False)
    assert [start["plain"] for start in RecordingConnector.starts] == ["first", "second"]


def test_passwords_of_converters_and_clients_are_masked_by_type(worker_props: dict[str, str]) -> None:
    more = {"producer.ssl.key.password": "workerpass", "consumer.sasl.jaas.config": "lineofjaas"}
    herder = StandaloneHerder(WorkerConfig.standalone({**worker_props, **more}), worker_id="w:1")
    try:
        herder.start()
        mask = herder._config.providers.mask
        assert mask.mask("workerpass lineofjaas") == "[hidden] [hidden]"
    finally:
        herder.close(5)


# --- when values run out


class Unit:
    """A connector's unit with a clock that is turned."""

    def __init__(self, config: WorkerConfig, given: dict[str, str]) -> None:
        self.clock = ManualClock()
        self.timer = ReloadTimer(self._reload, self.clock.monotonic)
        values = ResolvedConfigs(config.providers, self.timer)
        self._store = OffsetFile(config.offset_storage_file_filename)
        mask = config.providers.mask
        given = {"connector.class": CONNECTOR, **given}
        executor = LocalExecutor(config, Plugins.discover(), StandaloneServices(self._store), self, mask)
        runs = itertools.count()
        auto_restart = AutoRestart(config, lambda *_: None)
        dependencies = ConnectorDependencies("w:1", executor, values, mask, lambda: next(runs), auto_restart)
        config_with_values = {key: value or "" for key, value in values.resolve_for_validation(given).values.items()}
        definition = ConnectorDefinition("c", given, config_with_values, ConnectorFacts(CONNECTOR, "source", None))
        self.unit = StandaloneConnector(definition, dependencies, TargetState.STARTED)
        self.run(self.unit.start)

    def on_connector_state(self, run: int, name: str, state: State, trace: str | None, version: str | None) -> None:
        self.unit.on_connector_state(run, state, trace)

    def on_task_state(self, *told: object) -> None: ...

    def on_reconfiguration_requested(self, *told: object) -> None: ...

    def on_topics(self, *told: object) -> None: ...

    def on_stall(self, *told: object) -> None: ...

    def _reload(self, name: str, only_if_changed: bool) -> None:
        self.run(lambda: self.unit.reload(only_if_changed=only_if_changed))

    def run(self, job: Callable[[], None]) -> None:
        self.unit.submit(job).result(WAIT_S)

    def wait(self, seconds: float) -> float | None:
        self.clock.advance(seconds)
        return self.timer.run_due()

    def close(self) -> None:
        self.unit.shut_down().result(WAIT_S)
        self._store.close()


@pytest.fixture
def make_unit(worker_props: dict[str, str]) -> Iterator[Callable[..., Unit]]:
    made: list[Unit] = []

    def make(**given: str) -> Unit:
        props = {key.replace("_", "."): value for key, value in given.items()}
        made.append(Unit(WorkerConfig.standalone(worker_props), {"name": "c", "plain": "${p:x}", **props}))
        return made[-1]

    yield make
    for unit in made:
        unit.close()


def values_of_starts() -> list[str]:
    return [start["plain"] for start in RecordingConnector.starts]


def test_a_connector_is_restarted_when_its_lease_is_over_changed_or_not(make_unit: Callable[..., Unit]) -> None:
    RotatingProvider.values, RotatingProvider.ttl_ms = {"x": "one"}, 10_000
    unit = make_unit()
    assert unit.wait(9) == 1.0
    assert values_of_starts() == ["one"]
    unit.wait(1)
    assert values_of_starts() == ["one", "one"]
    RotatingProvider.values = {"x": "two"}
    assert unit.wait(10) == 10.0
    assert values_of_starts() == ["one", "one", "two"]


def test_watched_values_restart_it_only_when_they_are_others(make_unit: Callable[..., Unit]) -> None:
    RotatingProvider.values, RotatingProvider.ttl_ms, RotatingProvider.only_if_changed = {"x": "one"}, 1000, True
    unit = make_unit()
    for _ in range(3):
        assert unit.wait(1) == 1.0
    assert values_of_starts() == ["one"]
    RotatingProvider.values = {"x": "two"}
    unit.wait(1)
    assert values_of_starts() == ["one", "two"]


def test_with_reload_action_none_it_is_never_restarted(make_unit: Callable[..., Unit]) -> None:
    RotatingProvider.values, RotatingProvider.ttl_ms = {"x": "one"}, 1000
    unit = make_unit(config_action_reload=" NONE ")
    assert unit.wait(5) is None
    assert values_of_starts() == ["one"]


def test_a_stopped_connector_is_left_alone_and_looks_its_values_up_when_it_starts(make_unit: Callable[..., Unit]) -> None:
    RotatingProvider.values, RotatingProvider.ttl_ms = {"x": "one"}, 1000
    unit = make_unit()
    unit.run(lambda: unit.unit.follow_target(TargetState.STOPPED))
    RotatingProvider.values = {"x": "two"}
    assert unit.wait(1) is None
    assert values_of_starts() == ["one"]
    unit.run(lambda: unit.unit.follow_target(TargetState.STARTED))
    assert values_of_starts() == ["one", "two"]
    assert unit.wait(0) == 1.0


def test_what_runs_goes_on_when_a_provider_does_not_answer_and_it_is_asked_again(
    make_unit: Callable[..., Unit], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    RotatingProvider.values, RotatingProvider.ttl_ms = {"x": "one"}, 1000
    unit = make_unit()

    def fail(self: RotatingProvider, path: str, keys: Any = None) -> Any:
        raise ConfigError("sealed")

    with monkeypatch.context() as patch:
        patch.setattr(RotatingProvider, "get", fail)
        assert unit.wait(1) == 1.0
    assert unit.unit.status().connector.state is State.RUNNING
    assert (
        "Connector c keeps its current config provider values: sealed (config provider 'p', for ${p:x} of plain)" in caplog.text
    )
    unit.wait(1)
    assert values_of_starts() == ["one", "one"]


def test_a_deleted_connector_is_forgotten() -> None:
    timer = ReloadTimer(lambda *args: None, ManualClock().monotonic)
    values = ResolvedConfigs(ConfigProviders({}, SecretMask()), timer)
    timer.schedule("c", [Expiry("p", "", 1000, restarts_only_if_changed=False)])
    values.forget("c")
    assert timer.run_due() is None


# --- task configurations


def test_a_tasks_configuration_is_kept_with_the_references_of_its_connector() -> None:
    given = {"pw": "${p:x}", "plain": "v", "url": "${p:u}/db"}
    values = {"pw": "secret", "plain": "v", "url": "host/db"}
    task = {"pw": "secret", "plain": "v", "url": "other/db", "own": "1"}
    kept = restore_references(task, given, values)
    assert kept == {"pw": "${p:x}", "plain": "v", "url": "other/db", "own": "1"}
    assert restore_values(kept, given, {**values, "pw": "rotated"}) == {**task, "pw": "rotated"}
