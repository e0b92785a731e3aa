"""The worker's pure parts: restarts, secrets, configuration."""

from __future__ import annotations

import pytest

from connect import ConfigError
from worker.config.secrets import SecretMask, is_secret_name
from worker.config.worker_config import WorkerConfig, split_listener
from worker.model import ConnectorStatus, State, Status
from worker.operations.restart_plan import planned_restart, to_restart


def status(connector: State, *tasks: State) -> ConnectorStatus:
    return ConnectorStatus("c", Status(connector, "w"), [(i, Status(state, "w")) for i, state in enumerate(tasks)], "source")


def test_restart_plans() -> None:
    mixed = status(State.RUNNING, State.FAILED, State.RUNNING)
    assert to_restart(mixed, include_tasks=True, only_failed=True) == (False, [0])
    assert to_restart(mixed, include_tasks=True, only_failed=False) == (True, [0, 1])
    assert to_restart(mixed, include_tasks=False, only_failed=True) == (False, [])
    shown = planned_restart(mixed, False, [0])
    assert [one.state for _, one in shown.tasks] == [State.RESTARTING, State.RUNNING]
    assert shown.connector.state is State.RUNNING


@pytest.mark.parametrize("key", ["db.password", "sasl.jaas.config", "aws.secret.access.key", "api.key", "auth.token"])
def test_names_of_secrets(key: str) -> None:
    assert is_secret_name(key)


@pytest.mark.parametrize("key", ["key.converter", "topic", "tokens.max.bytes.kept", "key.columns"])
def test_names_that_are_no_secrets(key: str) -> None:
    assert not is_secret_name(key)


def test_secrets_are_hidden_wherever_they_stand() -> None:
    mask = SecretMask()
    mask.add(
        {
            "db.password": "p$w.+d",
            "topic": "orders",
            "odd": "sesame!",
            "sasl.jaas.config": 'X.LoginModule required password="in ner";',
        }
    )
    mask.add({"odd": "sesame!"}, {"odd"})
    shown = mask.mask("dsn p$w.+d, orders, sesame!, in ner, https://joe:other@host/x?password=third&a=1, db.password: 'four th'")
    for secret in ("p$w.+d", "sesame!", "in ner", "other", "third", "four th"):
        assert secret not in shown
    assert "orders" in shown
    assert "@host/x" in shown


@pytest.mark.parametrize(
    "line",
    [
        'PlainLoginModule required username="worker" password="s3cret";',
        "PlainLoginModule required username='worker' user_admin='s3cret';",
        "ScramLoginModule required username=worker password=s3cret;",
        'OAuthBearerLoginModule required clientId="worker" clientSecret="s3cret" scope="worker";',
        'PlainLoginModule required username="worker" password="s3\\cret";',
    ],
)
def test_of_a_login_the_password_is_secret_and_the_name_is_not(line: str) -> None:
    mask = SecretMask()
    mask.add({"sasl.jaas.config": line})
    assert mask.mask("worker: s3cret") == "worker: [hidden]"
    assert mask.mask(f"the whole, {line}") == "the whole, [hidden]"


def test_a_short_secret_is_hidden_where_it_stands_alone() -> None:
    mask = SecretMask()
    mask.add({"password": "ab"})
    assert mask.mask("ab abc cab (ab)") == "[hidden] abc cab ([hidden])"


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
