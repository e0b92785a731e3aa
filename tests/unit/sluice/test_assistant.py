"""``sluice mcp``: what it offers, and what it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from rest.client import ConnectClient
from sluice.assistant.commands import CommandRunner
from sluice.assistant.masking import OutputMask
from sluice.assistant.server import build_server
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


@pytest.mark.parametrize("address", ["0.0.0.0:80", "example.com:80", "eighty", "127.0.0.1:99999"])
def test_http_listens_on_this_machine_only(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(build(COMMANDS), ["mcp", "--url", _NOBODY, "--http", address]) == 2
    assert "there is no authentication" in capsys.readouterr().err
