"""Dead letters that are read from here, and not through the worker."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest

from connect.errors import ConfigError
from rest.client import ConnectClient
from sluice.cli.dead_letter_text import check_lines
from sluice.cli.dlq import read_transforms
from sluice.online.dead_letters import DeadLetterAccess
from worker.dead_letters import engine
from worker.dead_letters.reader import LetterSource
from worker.progress_reports import ignore_progress

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
    found = _access(worker, local=local).replay({"dry_run": True}, {}, ignore_progress, limit)
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


def test_secrets_that_a_replays_transformation_inserts_are_resolved_and_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secrets, file = tmp_path / "s.properties", tmp_path / "w.properties"
    secrets.write_text("token=t0ken-77\n")
    file.write_text(f"config.providers=file\nconfig.providers.file.class={_PROVIDER}\n")
    worker = _Worker()
    monkeypatch.setattr(worker, "config", lambda name: {"name": name})

    def answer(source: LetterSource, request: Mapping[str, Any], on_progress: Any) -> dict[str, Any]:
        inserted = request["transforms"]["transforms.a.static.value"]
        assert inserted == "t0ken-77"
        return {**worker.answer(request), "letters": [{"changed": inserted}], "complete": True}

    monkeypatch.setattr(engine, "answer", answer)
    transforms = {"transforms": "a", "transforms.a.static.value": f"${{file:{secrets}:token}}"}
    found = _access(worker, file, local=True).replay({"dry_run": True, "transforms": transforms}, {}, ignore_progress)
    assert found["letters"] == [{"changed": "[hidden]"}]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.properties", "topics=a\ntransforms=b\n", "a.properties: topics does not belong to the transformations of a replay"),
        ("a.json", '{"predicates": "p"}', "a.json: The transformations of a replay have no key transforms"),
        ("a.yaml", "transforms: a\nvalue.converter.x: y\n", "a.yaml: value.converter.x has no effect without value.converter"),
    ],
)
def test_files_without_transformations_are_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_transforms(str(tmp_path / name))


def test_a_checked_dead_letter_shows_what_the_replay_and_the_connector_change() -> None:
    before, changed, after = ({"value": {"schema": None, "payload": {"amount": one}}} for one in ("x", "0", 0))
    shown = {"partition": 0, "offset": 3, "error": None, "dropped_by": None}
    passes = {**shown, "verdict": "passes", "before": before, "changed": changed, "after": after}
    assert check_lines(passes) == ["0:3 passes", '    replay ~ value.amount = "x" -> "0"', '    ~ value.amount = "0" -> 0']
    withheld = {**shown, "verdict": "withheld", "dropped_by": "t", "before": before, "changed": None, "after": None}
    assert check_lines(withheld) == ["0:3 withheld", "    dropped by t", '      value.amount = "x"']
    unchecked = {**shown, "verdict": "unchecked", "before": before, "changed": changed, "after": None}
    assert check_lines(unchecked) == ["0:3 unchecked", '    replay ~ value.amount = "x" -> "0"', '      value.amount = "0"']
