"""Commands authenticate: credentials of options, environment variables, and contexts; ``sluice auth``."""

from __future__ import annotations

import io
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from connect.errors import ConfigError, ForbiddenError
from rest.client import ConnectClient
from rest.credentials import ClientCredentials
from rest.rest_server import RestServer
from rest.security.passwords import hash_token
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from tests.integration.rest.certificates import Authority
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig

PLAIN = {"bootstrap.servers": "x:1", "key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "o"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("worker")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def server(folder: Path, authority: Authority) -> Iterator[RestServer]:
    (folder / "tokens").write_text(f"ci:{hash_token('t0ken')}:ops\n")
    (folder / "users").write_text("")
    herder = FakeHerder()
    herder.put_connector("a", {"connector.class": "x", "db.password": "s3cret", "file": "1"}, replace=True)
    assert run(build(COMMANDS), ["docs", "boolean-converter"]) == 0  # loads what a command needs, outside of the time of a test
    props = {
        "listeners": "http://127.0.0.1:0,https://127.0.0.1:0",
        "ssl.keystore.location": authority.sign("worker").write_pem(folder / "worker.pem"),
        "rest.authentication": "basic,bearer",
        "rest.authentication.tokens.file": str(folder / "tokens"),
        "rest.authentication.users.file": str(folder / "users"),
    }
    server = RestServer.from_config(WorkerConfig.standalone({**PLAIN, **props}))
    server.start(herder)
    yield server
    server.stop(1)


Sluice = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sluice(server: RestServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Sluice:
    """Runs a command with the worker's address."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("SLUICE_CONNECT_URL", f"http://127.0.0.1:{server.ports[0]}")

    def call(*words: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(stdin))
        code = run(build(COMMANDS), list(words))
        out = capsys.readouterr()
        return code, out.out, out.err

    return call


def test_user_and_token_are_created_and_used(
    sluice: Sluice, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, out, err = sluice("auth", "user", "alice", "--file", str(folder / "users"), stdin="pass word\n")
    assert (code, out) == (0, "")
    assert "pass word" not in (folder / "users").read_text() + err
    refused, _, told = sluice("get")
    assert (refused, "SLUICE_CONNECT_TOKEN" in told) == (1, True)
    (tmp_path / "password").write_text("pass word\n")
    assert sluice("get", "--user", "alice", "--password-file", str(tmp_path / "password"))[0] == 0
    monkeypatch.setenv("SLUICE_CONNECT_PASSWORD", "pass word")
    assert sluice("get", "--user", "alice")[0] == 0
    assert "does not accept the credentials" in sluice("get", "--user", "bob")[2]

    code, out, err = sluice("auth", "token", "robot", "--group", "ops", "--file", str(folder / "tokens"))
    token = out.strip()
    assert token.startswith("slc_")
    assert token not in (folder / "tokens").read_text() + err
    monkeypatch.setenv("SLUICE_CONNECT_TOKEN", token)
    shown = json.loads(sluice("auth", "whoami", "-o", "json")[1])
    assert (shown["subject"], shown["groups"]) == ("robot", ["ops"])
    assert "admin of *" in sluice("auth", "whoami")[1]


def test_line_is_printed_without_a_file(sluice: Sluice) -> None:
    code, out, _ = sluice("auth", "user", "alice", stdin="x\n")
    assert (code, out.startswith("alice:$scrypt$")) == (0, True)
    assert sluice("auth", "user", "a:b", stdin="x\n")[0] == 2
    assert sluice("auth", "user", "a", stdin="\n")[0] == 2


def test_lines_and_tokens_have_machine_readable_forms(sluice: Sluice, tmp_path: Path) -> None:
    shown = json.loads(sluice("auth", "user", "alice", "-o", "json", stdin="x\n")[1])
    assert (shown["name"], shown["line"].startswith("alice:$scrypt$")) == ("alice", True)
    users, tokens = tmp_path / "new-users", tmp_path / "new-tokens"
    _, out, err = sluice("auth", "user", "alice", "--file", str(users), "-o", "yaml", stdin="x\n")
    assert (yaml.safe_load(out), err) == ({"name": "alice", "file": str(users)}, "")
    assert users.read_text().startswith("alice:$scrypt$")
    shown = json.loads(sluice("auth", "token", "ci", "--group", "ops", "--file", str(tokens), "-o", "json")[1])
    assert (shown["name"], shown["groups"], shown["file"]) == ("ci", ["ops"], str(tokens))
    assert tokens.read_text() == f"ci:{hash_token(shown['token'])}:ops\n"


def test_context_says_where_credentials_are_and_only_its_worker_gets_them(
    sluice: Sluice, tmp_path: Path, server: RestServer, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"https://127.0.0.1:{server.ports[1]}"
    token, trusted = tmp_path / "token", tmp_path / "ca.pem"
    token.write_text("t0ken\n")
    token.chmod(0o644)
    trusted.write_text(authority.pem())
    _, _, err = sluice("context", "set", "prod", url, "--token-file", str(token), "--ca-file", str(trusted))
    assert "chmod 600" in err
    monkeypatch.delenv("SLUICE_CONNECT_URL")
    assert sluice("get", "-o", "name", "--context", "prod")[:2] == (0, "a\n")
    stored = tmp_path / "sluice" / "contexts.json"
    assert "t0ken" not in stored.read_text().replace(str(token), "")
    assert stat.S_IMODE(stored.stat().st_mode) == 0o600
    assert sluice("get", "--url", f"http://127.0.0.1:{server.ports[0]}")[0] == 1, "not the context's worker"
    command = f"cat {token}"
    assert sluice("context", "set", "cmd", url, "--token-command", command, "--ca-file", str(trusted))[0] == 0
    assert sluice("get", "--context", "cmd")[0] == 0
    assert sluice("context", "set", "cmd", url, "--token-command", "false", "--ca-file", str(trusted))[0] == 0
    assert "The token command false ended with 1" in sluice("get", "--context", "cmd")[2]


def test_hidden_value_in_a_file_never_overwrites_a_secret(
    sluice: Sluice, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: RestServer
) -> None:
    monkeypatch.setenv("SLUICE_CONNECT_TOKEN", "t0ken")
    file = tmp_path / "a.json"
    config: dict[str, Any] = {"connector.class": "x", "db.password": "[hidden]", "file": "2"}
    file.write_text(json.dumps({"name": "a", "config": config}))
    assert sluice("apply", str(file))[0] == 0
    with ConnectClient(f"http://127.0.0.1:{server.ports[0]}", credentials=ClientCredentials(token="t0ken")) as client:
        assert client.config("a") == {"name": "a", "connector.class": "x", "db.password": "s3cret", "file": "2"}
        with ConnectClient(client.url) as anonymous, pytest.raises(ForbiddenError):
            anonymous.connectors()
    file.write_text(json.dumps({"name": "new", "config": config}))
    code, out, _ = sluice("plan", str(file))
    assert (code, "stands for a secret that was not shown" in out) == (2, True)


@pytest.mark.parametrize(
    ("mine", "others", "user", "token"),
    [
        ({"user": "a"}, {"password": "p", "token": "t"}, "a", None),
        ({"token": "t"}, {"user": "a", "password": "p"}, None, "t"),
        ({"user": "a", "password": "p"}, {"password_file": "f"}, "a", None),
        ({}, {"token": "t"}, None, "t"),
    ],
)
def test_credentials_complete_each_other(
    mine: dict[str, str], others: dict[str, str], user: str | None, token: str | None
) -> None:
    found = ClientCredentials(**mine).over(ClientCredentials(**others))
    assert (found.user, found.token) == (user, token)


def test_secrets_are_not_in_the_text_of_credentials() -> None:
    assert "s3cret" not in repr(ClientCredentials(user="a", password="s3cret", token="s3cret"))


@pytest.mark.parametrize(
    "credentials",
    [ClientCredentials(user="a"), ClientCredentials(token_file="/nowhere"), ClientCredentials(token="a\nb")],
    ids=["no password", "no file", "line break"],
)
def test_unusable_credentials_are_config_errors(credentials: ClientCredentials) -> None:
    with pytest.raises(ConfigError):
        credentials.authorization()
