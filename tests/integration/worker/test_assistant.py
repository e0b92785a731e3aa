"""``sluice mcp`` in a process of its own, with the SDK's client, against a real worker that holds planted secrets."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from rest.polling import wait_until
from sluice.embedded.ports import free_ports
from tests.cluster.worker_process import SLUICE_STANDALONE, WorkerProcess
from tests.integration.executors.plugins import PATH
from tests.support.waiting import WAIT_S

_SECRETS = [f"planted-secret-{number}" for number in range(8)]
_CHANGES = {
    "apply", "pause", "reset_offsets", "restart", "restart_task", "resume", "set_offsets", "stop", "undo_offsets",
}  # fmt: skip


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[WorkerProcess]:
    settings = {
        "bootstrap.servers": "localhost:1", "key.converter": "String", "value.converter": "String", "task.executors": "0",
        "offset.storage.file.filename": str(tmp_path / "offsets"), "task.shutdown.graceful.timeout.ms": "1000",
    }  # fmt: skip
    worker = WorkerProcess(SLUICE_STANDALONE, tmp_path, "worker", settings)
    worker.start()
    worker.wait_until_up()
    yield worker
    worker.kill()


def _server(worker: WorkerProcess, root: Path, *options: str) -> StdioServerParameters:
    words = ["-c", "from sluice.cli import main; main()", "mcp", "--url", worker.client.url, "--root", str(root), *options]
    return StdioServerParameters(command=sys.executable, args=words, cwd=Path.cwd(), env={"PYTHONPATH": os.getcwd()})


def _text(result: Any) -> str:
    return "\n".join(one.text for one in result.content)


@pytest.mark.timeout(180)
def test_assistant_looks_checks_and_changes_only_if_allowed_and_never_sees_secrets(worker: WorkerProcess, tmp_path: Path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (tmp_path / "go").touch()
    secret = iter(_SECRETS)
    config = {
        "connector.class": PATH, "tasks.max": "1", "folder": str(tmp_path), "does": "fail@poll", "password": next(secret),
        "database.password": next(secret), "some.api.key": next(secret), "connection.url": f"jdbc:x://u:{next(secret)}@h/d",
        "sasl.jaas.config": f'org.x.PlainLoginModule required username="u" password="{next(secret)}";',
    }  # fmt: skip
    worker.client.create("rogue", config)
    worker.client.wait_for("rogue", "FAILED", timeout_s=WAIT_S)
    file = files / "lines.properties"
    file.write_text(
        f"name=lines\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=t\nbatch.size=x\n"
        f"transforms=m\ntransforms.m.type=org.apache.kafka.connect.transforms.MaskField$Value\ntransforms.m.fields=a\nmy.password={next(secret)}\n"
    )
    (tmp_path / "outside.properties").write_text("name=x\n")
    shown: list[str] = []

    async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(tool, arguments)
        shown.append(_text(result))
        assert not result.is_error, (tool, _text(result))
        found: dict[str, Any] = json.loads(_text(result))
        return found

    async def refused(client: Client, tool: str, **arguments: Any) -> str:
        result = await client.call_tool(tool, arguments)
        shown.append(_text(result))
        assert result.is_error
        return _text(result)

    async def look() -> None:
        async with Client(_server(worker, files), read_timeout_seconds=120) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"list_connectors", "describe", "diagnose", "lint", "preview", "plan", "reference"} <= names
            assert not names & _CHANGES
            rows = (await call(client, "list_connectors"))["connectors"]
            assert [(row["name"], row["failed"]) for row in rows] == [("rogue", ["0"])]
            described = await call(client, "describe", name="rogue")
            assert described["config"]["database.password"] == "[hidden]"
            problems = {one["code"]: one for one in (await call(client, "diagnose"))["problems"]}
            assert problems["failed"]["name"] == "rogue/0"
            assert problems["broker-unreachable"]["connector"] is None
            linted = await call(client, "lint", files=["lines.properties"])
            assert [one["path"] for one in linted["findings"] if one["severity"] == "error"] == ["batch.size"]
            file.write_text(file.read_text().replace("batch.size=x\n", ""))
            previewed = await call(client, "preview", file="lines.properties", records=[{"a": "b"}])
            assert previewed["exit_code"] == 0, previewed
            planned = await call(client, "plan", files=["."])
            assert planned["summary"]["create"] == 1
            assert "batch.size" in json.dumps(await call(client, "reference", component="FileStreamSource"))
            assert "outside of" in await refused(client, "lint", files=["../outside.properties"])
            assert "Connector nobody not found" in await refused(client, "diagnose", name="nobody")
            pages = (await client.list_resources()).resources
            page = next(one.uri for one in pages if str(one.uri).endswith("/FileStreamSource"))
            content = (await client.read_resource(page)).contents[0]
            assert "batch.size" in getattr(content, "text", "")

    async def change() -> None:
        async with Client(_server(worker, files, "--allow-changes"), read_timeout_seconds=120) as client:
            assert {tool.name for tool in (await client.list_tools()).tools} >= _CHANGES
            (tmp_path / "go").unlink()
            await call(client, "restart", name="rogue", only_failed=True)
            worker.client.wait_for("rogue", timeout_s=WAIT_S)
            assert (await call(client, "stop", name="rogue"))["result"] == "will stop"
            worker.client.wait_for("rogue", "STOPPED", timeout_s=WAIT_S)
            done = await call(client, "set_offsets", name="rogue", offsets=[{"partition": {"p": 1}, "offset": {"o": 2}}])
            assert (done["exit_code"], done["output"]["executed"]) == (0, False)

    asyncio.run(look())
    asyncio.run(change())
    everything = "\n".join(shown)
    assert [one for one in _SECRETS if one in everything] == []
    assert "[hidden]" in everything


def _accepts(port: int) -> bool:
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.timeout(120)
@pytest.mark.long
def test_http_serves_the_tools_and_ends_on_a_signal(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    words = [
        "-c",
        "from sluice.cli import main; main()",
        "mcp",
        "--url",
        "http://127.0.0.1:9",
        "--http",
        str(port),
        "--root",
        str(tmp_path),
    ]
    process = subprocess.Popen([sys.executable, *words], stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: _accepts(port), WAIT_S)

        async def ask() -> set[str]:
            async with Client(f"http://127.0.0.1:{port}/mcp") as client:
                return {tool.name for tool in (await client.list_tools()).tools}

        names = asyncio.run(ask())
        assert {"diagnose", "lint"} <= names
        assert "restart" not in names
    finally:
        process.terminate()
        _, notices = process.communicate(timeout=WAIT_S)
    assert f"at http://127.0.0.1:{port}/mcp, read-only" in notices
