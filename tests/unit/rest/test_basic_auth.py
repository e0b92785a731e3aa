"""Basic authentication: the JAAS file, the file of users, who is let in."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Scope

from connect.errors import ConfigError
from rest.extensions import ClusterView
from rest.middleware.basic_auth import MODULE, BasicAuth
from rest.middleware.extension_loader import BASIC_AUTH, load_extensions
from rest.middleware.jaas import parse_jaas
from tests.unit.rest.fake_herder import FakeHerder

KEY = "rest.basic.auth.jaas.config.file"


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users.properties"
    path.write_text("# who\nadmin = s3cret\nJosé=pässword:with:colons\n", "utf-8")
    return path


def jaas(tmp_path: Path, *modules: tuple[str, Path], entry: str = "KafkaConnect") -> str:
    path = tmp_path / "jaas.conf"
    lines = "".join(f'  {MODULE} {flag} file="{users}";\n' for flag, users in modules)
    path.write_text(f"{entry} {{\n{lines}}};\n", "utf-8")
    return str(path)


def asked(auth: BasicAuth, credentials: str | None, method: str = "GET", path: str = "/connectors") -> tuple[int, str, str]:
    """Status, type and body of an answer."""
    headers = [] if credentials is None else [(b"authorization", credentials.encode())]
    scope: Scope = {"type": "http", "method": method, "path": path, "headers": headers}
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    async def call() -> None:
        await auth.wrap(PlainTextResponse("let in"), ClusterView(FakeHerder()))(scope, receive, send)

    asyncio.run(call())
    media_type = dict(sent[0]["headers"])[b"content-type"].decode()
    return sent[0]["status"], media_type, sent[1]["body"].decode()


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def auth_with(jaas_file: str) -> BasicAuth:
    auth = BasicAuth({})
    auth.configure({KEY: jaas_file})
    return auth


REFUSED = (401, "application/json", "User cannot access the resource.")


def test_users_and_passwords_are_checked(tmp_path: Path, users: Path) -> None:
    auth = auth_with(jaas(tmp_path, ("required", users)))
    assert asked(auth, basic("admin", "s3cret"))[0] == 200
    assert asked(auth, basic("admin", "s3cret").replace("Basic", "basic"))[0] == 200
    assert asked(auth, basic("José", "pässword:with:colons"))[0] == 200
    for credentials in (
        None,
        "",
        basic("admin", "wrong"),
        basic("admin", ""),
        basic("nobody", "s3cret"),
        basic("nobody", ""),
        "Bearer abc",
        "Basic !!!",
        "Basic é",
        "Basic " + base64.b64encode(b"admin").decode(),
        "Basic " + base64.b64encode(b"\xff:\xff").decode(),
    ):
        assert asked(auth, credentials) == REFUSED
    assert asked(auth, None, "OPTIONS") == (401, "text/plain", REFUSED[2])


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/connectors/a/tasks", 200),
        ("POST", "/connectors/a/tasks/", 200),
        ("PUT", "/connectors/a/fence", 200),
        ("PUT", "/connectors/a/tasks", 401),
        ("POST", "/connectors/a/fence", 401),
        ("POST", "/connectors/a/tasks/0/restart", 401),
        ("POST", "/connectors/a/b/tasks", 401),
        ("POST", "/x/connectors/a/tasks", 401),
        ("GET", "/connectors/a/tasks", 401),
        ("GET", "/health", 401),
    ],
)
def test_only_requests_between_workers_need_no_password(method: str, path: str, status: int, tmp_path: Path, users: Path) -> None:
    assert asked(auth_with(jaas(tmp_path, ("required", users))), None, method, path)[0] == status


def test_changes_of_the_user_file_apply_immediately(tmp_path: Path, users: Path) -> None:
    auth = auth_with(jaas(tmp_path, ("required", users)))
    users.write_text("guest=more\n")
    assert asked(auth, basic("guest", "more"))[0] == 200
    assert asked(auth, basic("admin", "s3cret"))[0] == 401
    users.unlink()
    assert asked(auth, basic("guest", "more"))[0] == 401


@pytest.mark.parametrize(
    ("flags", "user", "status"),
    [
        (("required", "required"), "both", 200),
        (("required", "required"), "one", 401),
        (("sufficient", "required"), "one", 200),
        (("required", "sufficient"), "two", 401),
        (("requisite", "sufficient"), "two", 401),
        (("optional", "optional"), "two", 200),
        (("optional", "optional"), "none", 401),
    ],
)
def test_flags_of_login_modules(flags: tuple[str, str], user: str, status: int, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_text("both=x\none=x\n")
    second.write_text("both=x\ntwo=x\n")
    auth = auth_with(jaas(tmp_path, (flags[0], first), (flags[1], second)))
    assert asked(auth, basic(user, "x"))[0] == status


def test_jaas_file_is_read_from_kafka_opts(tmp_path: Path, users: Path) -> None:
    path = jaas(tmp_path, ("required", users))
    auth = BasicAuth({"KAFKA_OPTS": f'-Xmx1g "-Djava.security.auth.login.config={path}"'})
    auth.configure({})
    assert asked(auth, basic("admin", "s3cret"))[0] == 200
    with pytest.raises(ConfigError, match=rf"set {KEY}, or KAFKA_OPTS"):
        BasicAuth({"KAFKA_OPTS": "-Xmx1g"}).configure({})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("KafkaClient { a.B required; };", "no entry KafkaConnect with a login module; it has KafkaClient"),
        ("KafkaConnect { };", "no entry KafkaConnect"),
        ("KafkaConnect { a.B required; };", "login module a.B is not supported"),
        (f"KafkaConnect {{ {MODULE} required; }};", "Property Credentials file must be specified"),
        (f'KafkaConnect {{ {MODULE} required file="/nowhere"; }};', "Cannot read the user file /nowhere"),
        (f'KafkaConnect {{ {MODULE} required file="{{empty}}"; }};', "has no users: add a line user=password"),
        ("KafkaConnect { a.B", "the file ends where a name or a value is expected"),
        ("KafkaConnect {\n a.B maybe; };", "line 2: expected one of required, requisite, sufficient, optional after a.B"),
        ("KafkaConnect {\n a.B required x y; };", "line 2: expected '='"),
        ('KafkaConnect {\n a.B required x="y; };', "line 2: unterminated quoted string"),
        ("KafkaConnect { a.B required; }", "the file ends where ';' is expected"),
    ],
)
def test_invalid_jaas_file_aborts_startup(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("")
    path = tmp_path / "jaas.conf"
    path.write_text(text.replace("{empty}", str(tmp_path / "empty")))
    with pytest.raises(ConfigError, match=message):
        load_extensions([BASIC_AUTH], {KEY: str(path)})


def test_jaas_files_are_parsed_like_in_java() -> None:
    entries = parse_jaas(
        """
        // a comment
        A { x.Y REQUIRED a="1;\\"2\\"" b='c d' /* another */ debug=true; x.Z optional; };
        # and one more
        B { };
        """
    )
    assert [(one.class_name, one.flag, one.options) for one in entries["A"]] == [
        ("x.Y", "required", {"a": '1;"2"', "b": "c d", "debug": "true"}),
        ("x.Z", "optional", {}),
    ]
    assert entries["B"] == []
