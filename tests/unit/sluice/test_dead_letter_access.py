"""Dead letters that are read from here, and not through the worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from rest.client import ConnectClient
from sluice.online.dead_letters import DeadLetterAccess
from worker.dead_letters import engine
from worker.dead_letters.reader import LetterSource

_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


class _Worker:
    """Has a queue of 2500 dead letters."""

    url = "http://worker:8083"

    def __init__(self) -> None:
        self.limits: list[int] = []

    def config(self, name: str) -> dict[str, str]:
        return {"name": name, "value.converter": "Json", "value.converter.token": "${file:SECRETS:token}"}

    def dead_letters(self, name: str, *, limit: int) -> dict[str, int]:
        return {"left": 2500}

    def replay_dead_letters(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return self.answer(request)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.limits.append(request["limit"])
        start = sum(request["next"].values())
        end = min(2500, start + request["limit"])
        counts = {"checked": end - start, "replayed": 0, "verdicts": {}, "letters": []}
        return {**counts, "complete": end == 2500, "next": {"0": end}, "topic": "q"}


def _access(worker: _Worker, file: Path | None = None, *, local: bool) -> DeadLetterAccess:
    return DeadLetterAccess(cast(ConnectClient, worker), "c", lambda: {"bootstrap.servers": "b:1"}, file, local=local)


def _ignore(done: int, total: int, what: str) -> None:
    """Shows no progress."""


@pytest.mark.parametrize(
    ("local", "limit", "limits"),
    [
        (False, None, [1000, 1000, 1000]),
        (False, 1500, [1000, 500]),
        (True, None, [1 << 31]),
        (True, 1500, [1500]),
    ],
)
def test_only_a_worker_gets_a_replay_in_parts(
    local: bool, limit: int | None, limits: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = _Worker()
    monkeypatch.setattr(engine, "answer", lambda source, request, on_progress: worker.answer(request))
    found = _access(worker, local=local).replay({"dry_run": True}, {}, _ignore, limit)
    assert worker.limits == limits
    assert found["checked"] == (limit or 2500)


def test_references_in_the_workers_file_are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secrets, file = tmp_path / "s.properties", tmp_path / "w.properties"
    secrets.write_text("token=t0ken\nurl=http://registry\n")
    file.write_text(
        f"config.providers=file\nconfig.providers.file.class={_PROVIDER}\n"
        f"key.converter=Avro\nkey.converter.schema.registry.url=${{file:{secrets}:url}}\n"
    )
    worker, sources = _Worker(), list[LetterSource]()
    config = {"name": "c", "value.converter.token": f"${{file:{secrets}:token}}"}
    monkeypatch.setattr(worker, "config", lambda name: config)
    monkeypatch.setattr(engine, "answer", lambda source, request, on_progress: sources.append(source))
    _access(worker, file, local=True).letters(limit=1, selection={})
    (source,) = sources
    assert source.worker is not None
    assert source.worker["key.converter.schema.registry.url"] == "http://registry"
    assert source.config["value.converter.token"] == "t0ken"
    assert source.mask.mask("a t0ken") == "a [hidden]"
