"""``sluice mcp``: what it offers, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from click.core import ParameterSource
from mcp import Client

from connect.errors import NotFoundError, UnreachableError
from connect.plugins import Plugins
from rest.client import ConnectClient
from sluice.assistant.commands import CommandResult, CommandRunner
from sluice.assistant.errors import ToolInputError
from sluice.assistant.masking import OutputMask
from sluice.assistant.server import build_server
from sluice.assistant.tools import ChangeTools, CommandTools, ReadTools
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run

_NOBODY = "http://127.0.0.1:9"


def _text(result: Any) -> str:
    return str(result.content[0].text)


def _client() -> ConnectClient:
    return ConnectClient(_NOBODY)


def test_offline_tools_work_without_a_worker_and_hide_secrets_of_files(tmp_path: Path) -> None:
    secret = "planted-secret"
    text = f"name=c\nconnector.class=FileStreamSource\ntopic=t\nmy.token={secret}\nx={secret}\n"
    (tmp_path / "c.properties").write_text(text)
    server = build_server(_client, CommandRunner({}), tmp_path, COMMANDS, allows_changes=False)

    async def ask() -> tuple[str, str]:
        async with Client(server) as client:
            linted = await client.call_tool("lint", {"files": ["c.properties"]})
            listed = await client.call_tool("list_connectors", {})
            return (*(getattr(one.content[0], "text", "") for one in (linted, listed)),)  # type: ignore[return-value]

    linted, listed = asyncio.run(ask())
    assert json.loads(linted)["files"] == [str(tmp_path / "c.properties")]
    assert secret not in linted
    assert "No worker responds at http://127.0.0.1:9" in listed


def test_tools_of_commands_that_are_not_installed_are_not_offered(tmp_path: Path) -> None:
    async def names(commands: set[str]) -> set[str]:
        server = build_server(_client, CommandRunner({}), tmp_path, commands, allows_changes=True)
        return {tool.name for tool in await server.list_tools()}

    both = asyncio.run(names({"verify", "logs"}))
    assert {"verify", "logs"} <= both
    assert not {"verify", "logs"} & asyncio.run(names(set()))
    assert {"apply", "restart", "set_offsets"} <= both


def test_mask_hides_secrets_wherever_they_appear() -> None:
    mask = OutputMask()
    mask.learn_config(None, {"db.password": "pl4nted", "url": "jdbc:x://u:hidd3n@h"})
    shown = mask.value({"a": ["x pl4nted y", {"b": "hidd3n"}], "n": 1})
    assert shown == {"a": ["x [hidden] y", {"b": "[hidden]"}], "n": 1}


class _Worker:
    """Has one connector with a key of type PASSWORD whose name does not tell."""

    config: Mapping[str, str] = {"connector.class": "Source", "code": "pl4nted"}

    def connectors_expanded(self, *kinds: str) -> dict[str, Any]:
        return {"c": {"info": {"config": self.config}}}

    def plugin_config(self, plugin: str) -> list[dict[str, str]]:
        return [{"name": "code", "type": "PASSWORD"}]


def test_secrets_of_a_class_that_was_first_seen_offline_are_still_asked_from_the_worker(tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text("name=c\nconnector.class=Source\ncode=other\n")
    mask = OutputMask()
    mask.learn_files(None, [tmp_path])
    mask.learn_cluster(cast(ConnectClient, _Worker()))
    assert mask.text("the code is pl4nted") == "the code is [hidden]"


class _Plugins(_Worker):
    """Knows a connector without secrets, and a transformation with one. May be down."""

    config = {
        "connector.class": "Source",
        "transforms": "sign",
        "transforms.sign.type": "Sign",
        "transforms.sign.code": "pl4nted",
    }
    is_down = False

    def plugin_config(self, plugin: str) -> list[dict[str, str]]:
        if self.is_down:
            raise UnreachableError("nobody answers")
        if plugin not in ("Source", "Sign"):
            raise NotFoundError(f"no plugin {plugin}")
        return super().plugin_config(plugin) if plugin == "Sign" else []


def test_secrets_of_transformations_and_values_of_unknown_plugins_are_hidden() -> None:
    mask, worker = OutputMask(), cast(ConnectClient, _Plugins())
    mask.learn_cluster(worker)
    mask.learn_config(worker, {"connector.class": "Gone", "code": "unkn0wn", "topics": "orders"})
    assert mask.text("pl4nted, unkn0wn, orders, Gone") == "[hidden], [hidden], orders, Gone"


def test_worker_that_was_down_is_asked_again() -> None:
    mask, plugins = OutputMask(), _Plugins()
    worker = cast(ConnectClient, plugins)
    plugins.is_down = True
    config = {**plugins.config, "file": "orders.txt"}
    mask.learn_config(worker, config)
    assert mask.text("pl4nted in orders.txt") == "pl4nted in orders.txt"
    plugins.is_down = False
    mask.learn_config(worker, config)
    assert mask.text("pl4nted in orders.txt") == "[hidden] in orders.txt"
    plugins.is_down = True
    mask.learn_config(
        worker, {**config, "transforms.sign.code": "s3cond", "transforms": "sign,new", "transforms.new.type": "New"}
    )
    assert mask.text("s3cond") == "[hidden]"


class _Recorder(CommandRunner):
    """Runs nothing."""

    words: tuple[str, ...] = ()

    def run(self, *words: str, stdin: str | None = None, timeout_s: float | None = None) -> CommandResult:
        _Recorder.words = words
        return CommandResult(0, None, "")


_HOSTILE = ["--token-command=touch pwned", "--repair", "--url=http://evil:80", "-h", "--", "-", "--every=1s", "-ojson --stop"]


def _tools(root: Path) -> tuple[CommandTools, ChangeTools]:
    runner = _Recorder({})
    read = ReadTools(_client, runner, OutputMask(), root, Plugins.discover())
    return CommandTools(runner, read), ChangeTools(_client, runner, read)


@pytest.mark.parametrize("text", _HOSTILE)
def test_no_text_becomes_an_option_of_a_command(text: str, tmp_path: Path) -> None:
    command, change = _tools(tmp_path)
    command.verify(text, text, text, text, text, 3, text)
    options = [f"--{name}={text}" for name in ("source", "sink", "tables", "ignore-columns")]
    assert _Recorder.words == ("verify", *options, "--sample=3", f"--timeout={text}", "-o", "json", "--", text)
    context = COMMANDS["verify"].load().make_context("verify", [*_Recorder.words[1:5], "--", text])
    given = {name for name in context.params if context.get_parameter_source(name) == ParameterSource.COMMANDLINE}
    assert given == {"connector", "source", "sink", "tables", "ignore_columns"}
    assert not context.meta.get("sluice.credentials")
    command.logs(text)
    assert _Recorder.words[-2:] == ("--", text)
    change.set_offsets(text, [])
    assert _Recorder.words[-3:] == ("--", text, "-")
    for call in (change.reset_offsets, change.undo_offsets):
        call(text)
        assert _Recorder.words[-2:] == ("--", text)
    (tmp_path / text.replace("/", "_")).touch()
    change.apply([text.replace("/", "_")])
    assert _Recorder.words[-2:] == ("--", str(tmp_path / text.replace("/", "_")))


@pytest.mark.parametrize("file", ["/etc/passwd.properties", "../outside.json", "a/../../outside.yaml", "absent.yml"])
@pytest.mark.parametrize("place", ["connector", "source", "sink"])
def test_verify_reads_files_below_the_root_only(place: str, file: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for name in ("outside.json", "outside.yaml"):
        (tmp_path / name).touch()
    (root / "inside.json").touch()
    command, _ = _tools(root)
    command.verify(**{place: "inside.json"})  # type: ignore[arg-type]
    assert _Recorder.words[-1].endswith(str(root / "inside.json")) or f"--{place}={root / 'inside.json'}" in _Recorder.words
    with pytest.raises(ToolInputError, match=r"outside|does not exist"):
        command.verify(**{place: file})  # type: ignore[arg-type]


def test_verify_takes_no_free_arguments(tmp_path: Path) -> None:
    server = build_server(_client, CommandRunner({}), tmp_path, COMMANDS, allows_changes=False)
    pwned = tmp_path / "pwned"

    async def ask() -> None:
        async with Client(server) as client:
            attack = f"--token-command=touch {pwned}"
            await client.call_tool("verify", {"arguments": [attack, f"--url={_NOBODY}", "c"]})
            await client.call_tool("verify", {"connector": attack})

    asyncio.run(ask())
    assert not pwned.exists()


@pytest.mark.parametrize("address", ["0.0.0.0:80", "example.com:80", "eighty", "127.0.0.1:99999"])
def test_http_listens_on_this_machine_only(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), ["mcp", "--url", _NOBODY, "--http", address]) == 2
    assert "there is no authentication" in capsys.readouterr().err
