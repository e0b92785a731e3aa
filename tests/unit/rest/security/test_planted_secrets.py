"""A hundred planted secrets, in configurations, credentials, tokens, headers, and failures, appear in no answer to callers who
are not admin, in no log, in no audit entry, and in no error."""

from __future__ import annotations

import itertools
import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from rest.security.passwords import hash_password, hash_token
from tests.unit.rest.fake_herder import FakeHerder
from tests.unit.rest.security.conftest import PLAIN, Serve, basic
from worker.config.worker_config import WorkerConfig
from worker.model import ConfigVersion, Origin, TargetState, TaskId, TaskInfo

_numbers = itertools.count()


def secret() -> str:
    return f"pl4nted-{next(_numbers):03d}-s3cret"


NAMED = [
    "db.password", "database.password", "connection.password", "password", "ssl.keystore.password", "ssl.key.password",
    "ssl.truststore.password", "ssl.keystore.key", "sasl.jaas.config", "aws.secret.access.key", "client.secret", "api.key",
    "api-key", "apikey", "private.key", "private-key", "auth.token", "oauth.token.value", "basic.auth.user.info",
    "value.converter.basic.auth.user.info", "key.converter.schema.registry.basic.auth.user.info", "credentials.json",
    "producer.override.sasl.jaas.config", "consumer.override.ssl.key.password", "admin.override.sasl.jaas.config",
    "transforms.x.password", "predicates.p.secret", "spark.conf.spark.hadoop.fs.s3a.secret.key", "schema.registry.token",
]  # fmt: skip
URLS = [
    "jdbc:postgresql://u:{}@h:5432/db", "jdbc:postgresql://h/db?user=u&password={}", "jdbc:mysql://h/db?password={}&x=1",
    "postgresql://u:{}@h/db", "https://u:{}@registry:8081", "mysql://root:{}@h:3306/db", "jdbc:sqlserver://h;password={};x=1",
    "https://h/path?token={}", "https://h/?access_key={}",
]  # fmt: skip
TYPED = ["code", "pin", "shibboleth"]


class Herder(FakeHerder):
    """Knows a connector whose keys of type PASSWORD have names that do not tell, and fails in many ways."""

    def plugin_config(self, plugin: str, version: str | None = None) -> list[dict[str, Any]]:
        if plugin == "Known":
            return [{"name": name, "type": "PASSWORD"} for name in TYPED] + [{"name": "topic", "type": "STRING"}]
        return super().plugin_config(plugin, version)

    def validate(self, plugin: str, config: Mapping[str, Any]) -> dict[str, Any]:
        """Echoes values, as Apache does; an invalid one in the error too."""
        if "retries" in config:
            raise ConfigError.invalid("url.0", config["url.0"], "retries does not fit")
        configs: list[dict[str, Any]] = []
        for key, value in config.items():
            shown = {"name": key, "value": "[hidden]" if key in TYPED else value, "errors": [f"Invalid value {value}"]}
            configs.append({"definition": None, "value": shown})
        return {"name": plugin, "error_count": 1, "groups": [], "configs": [*configs, {"definition": {}, "value": None}]}

    def task_infos(self, name: str) -> list[TaskInfo]:
        config = {key: value for key, value in self.configs[name].items() if value is not None}
        # A connector may hand a secret to its tasks under a key of its own.
        passed = {f"inner.{at}": value for at, value in enumerate(config.values())}
        return [TaskInfo(TaskId(name, 0), {**config, **passed, "task.class": "T"})]


def planted_config(plugin: str) -> dict[str, str | None]:
    found: dict[str, str | None] = {"connector.class": plugin, "topic": "t"}
    found |= {name: secret() for name in NAMED}
    found |= {f"url.{at}": url.format(secret()) for at, url in enumerate(URLS)}
    found |= {name: secret() for name in TYPED}
    return found


def secrets_of(text: str) -> list[str]:
    import re

    return re.findall(r"pl4nted-\d\d\d-s3cret", text)


@pytest.fixture
def _fake() -> Herder:
    return Herder()


def test_planted_secrets_appear_nowhere(
    serve: Serve, fake: FakeHerder, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    password, viewer, admin = secret(), secret(), secret()
    (tmp_path / "users").write_text(f"alice:{hash_password(password)}\n")
    (tmp_path / "tokens").write_text(f"viewer:{hash_token(viewer)}\nadmin:{hash_token(admin)}\n")
    (tmp_path / "roles.yaml").write_text("bindings: [{role: viewer, users: [viewer, alice]}, {role: admin, users: [admin]}]")
    call = serve(
        {
            "rest.authentication": "basic,bearer",
            "rest.authentication.users.file": str(tmp_path / "users"),
            "rest.authentication.tokens.file": str(tmp_path / "tokens"),
            "rest.authorization.roles.file": str(tmp_path / "roles.yaml"),
            "rest.authentication.session.secret": secret() + "x" * 32,
            "rest.audit.log.file": str(tmp_path / "audit"),
        }
    )
    answers: list[str] = []

    def ask(method: str, path: str, body: Any = None, **more: Any) -> int:
        answer = call(method, path, body, **more)
        answers.append(f"{answer.status} {json.dumps(answer.body)} {answer.headers}")
        return answer.status

    for name, plugin in (("known", "Known"), ("unknown", "Unknown")):
        config = planted_config(plugin)
        fake.configs[name] = {"name": name, **config}
        fake.targets[name] = TargetState.STARTED
        fake.versions[name] = [ConfigVersion(1, 0, Origin.REST, {"name": name, **planted_config(plugin)})]
    assert next(_numbers) > 100
    paths = [
        "/connectors?expand=info&expand=status", *(f"/connectors/{name}{rest}" for name in ("known", "unknown")
        for rest in ("", "/config", "/tasks", "/status", "/offsets", "/topics")),
        *(f"/sluice/connectors/{name}/history{rest}" for name in ("known", "unknown") for rest in ("", "/1")),
        "/sluice/connectors-dir", "/sluice/auth/session", "/connector-plugins", "/",
    ]  # fmt: skip
    for path in paths:
        assert ask("GET", path, token=viewer) == 200, path
        assert ask("GET", path, headers=basic("alice", password)) == 200
        ask("GET", path, token=secret())
        ask("GET", path, headers=basic("alice", secret()))
        ask("GET", path, headers={"Authorization": f"Digest {secret()}", "Cookie": f"sluice_session={secret()}"})
    ask("PUT", "/connectors/known/config", planted_config("Known"), token=viewer)
    ask("DELETE", f"/connectors/{secret()[:7]}", token=viewer, headers={"X-Request-ID": "1"})
    ask("GET", f"/sluice/auth/callback?code={secret()}&state={secret()}")
    ask("GET", "/connectors", headers={"X-Sluice-Identity": secret(), "X-Sluice-Identity-Signature": secret()})
    ask("POST", "/sluice/auth/session", token=viewer)
    with caplog.at_level(logging.DEBUG):
        (tmp_path / "users").write_text(f"alice:{secret()}\n")
        ask("GET", "/", headers=basic("alice", secret()))
        (tmp_path / "tokens").write_text(f"viewer:{secret()}\n")
        ask("GET", "/", token=secret())
    assert "cannot be used; keeping its former content" in caplog.text
    found = {
        "answers": secrets_of("\n".join(answers)),
        "log": secrets_of(caplog.text),
        "output": secrets_of("".join(capfd.readouterr())),
        "audit": secrets_of((tmp_path / "audit").read_text()),
    }
    assert found == {"answers": [], "log": [], "output": [], "audit": []}
    # The same through the eyes of an admin, so that the test looks where secrets are.
    shown = call("GET", "/connectors/known", token=admin)
    assert len(set(secrets_of(json.dumps(shown.body)))) == len(NAMED) + len(URLS) + len(TYPED)


def test_references_stay_readable(serve: Serve, fake: FakeHerder, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text(f"viewer:{hash_token('v')}\n")
    (tmp_path / "roles.yaml").write_text("bindings: [{role: viewer, users: ['*']}]")
    call = serve(
        {
            "rest.authentication": "bearer",
            "rest.authentication.tokens.file": str(tmp_path / "tokens"),
            "rest.authorization.roles.file": str(tmp_path / "roles.yaml"),
        }
    )
    fake.configs["a"] = {
        "name": "a", "connector.class": "Known", "code": "${file:/run/db:code}", "db.password": "${env:USER}${env:PASSWORD}",
        "pin": "prefix-${env:X}", "topic": "shown", "password": "", "secret": None,
    }  # fmt: skip
    fake.targets["a"] = TargetState.STARTED
    assert call("GET", "/connectors/a/config", token="v").body == {
        "name": "a", "connector.class": "Known", "code": "${file:/run/db:code}", "db.password": "${env:USER}${env:PASSWORD}",
        "pin": "[hidden]", "topic": "shown", "password": "", "secret": None,
    }  # fmt: skip


def test_hidden_values_that_come_back(serve: Serve, fake: FakeHerder) -> None:
    call = serve({})
    stored = {"connector.class": "Known", "code": "c0de", "url": "jdbc:postgresql://u:pw123456@h/db", "topic": "t"}
    assert call("PUT", "/connectors/a/config", stored).status == 201
    back = {**stored, "code": "[hidden]", "url": "jdbc:postgresql://u:[hidden]@h/db", "topic": "other"}
    kept = call("PUT", "/connectors/a/config", back)
    assert (kept.status, kept.headers["X-Sluice-Kept-Secrets"]) == (200, "code, url")
    assert fake.configs["a"] == {**stored, "topic": "other", "name": "a"}
    assert call("PATCH", "/connectors/a/config", {"code": "[hidden]", "topic": "t"}).headers["X-Sluice-Kept-Secrets"] == "code"
    assert fake.configs["a"]["code"] == "c0de"
    for body in ({**back, "pin": "[hidden]"}, {**back, "url": "jdbc:postgresql://u:[hidden]@elsewhere/db"}):
        refused = call("PUT", "/connectors/a/config", body)
        assert (refused.status, "stands for a secret that was not shown" in refused.body["message"]) == (400, True)
    assert call("POST", "/connectors", {"name": "new", "config": back}).status == 400
    # Not a secret: what MaskField writes into records.
    mask = {"transforms": "m", "transforms.m.type": "Mask", "transforms.m.replacement": "[hidden]"}
    assert call("PUT", "/connectors/m/config", {"connector.class": "Known", "topic": "[hidden]"}).status == 201
    assert fake.configs["m"]["topic"] == "[hidden]"
    assert call("PUT", "/connectors/n/config", {"connector.class": "Known", **mask}).status in (201, 400)


def test_validation_shows_hidden_values_as_they_were_sent(serve: Serve, fake: FakeHerder) -> None:
    call = serve({"rest.mask.secrets": "true"})
    stored = {"name": "a", **planted_config("Known")}
    fake.configs["a"], fake.targets["a"] = dict(stored), TargetState.STARTED
    shown = call("GET", "/connectors/a/config").body
    assert secrets_of(json.dumps(shown)) == []
    answer = call("PUT", "/connector-plugins/Known/config/validate", {**shown, "topic": "other"})
    assert (answer.status, secrets_of(json.dumps(answer.body))) == (200, [])
    values = {one["value"]["name"]: one["value"] for one in answer.body["configs"] if one["value"] is not None}
    assert {name: value["value"] for name, value in values.items()} == {**shown, "topic": "other"}
    assert values["db.password"]["errors"] == ["Invalid value [hidden]"]
    failed = call("PUT", "/connector-plugins/Known/config/validate", {**shown, "retries": "x"})
    assert (failed.status, f"Invalid value {shown['url.0']} for" in failed.body["message"]) == (500, True)
    # A new value is the client's own.
    assert "n3w" in json.dumps(call("PUT", "/connector-plugins/Known/config/validate", {**shown, "db.password": "n3w"}).body)


def test_secrets_of_the_worker_are_in_no_error() -> None:
    needed = {**PLAIN}
    value = secret()[:20]
    for key in ("rest.authentication.session.secret", "rest.authentication.oidc.client.secret"):
        props = {**needed, key: value, "rest.authentication": "oidc", "rest.authentication.oidc.issuer": "ftp://x"}
        with pytest.raises(ConfigError) as error:
            WorkerConfig.standalone(props)
        assert isinstance(error.value, ConnectError)
        assert secrets_of(str(error.value)) == []
    config = WorkerConfig.standalone({**needed, "rest.authentication.session.secret": value + "x" * 32})
    assert secrets_of(repr(config.rest_security)) == []
