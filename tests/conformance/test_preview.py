"""Runs the cases of transformations and chains through ``sluice preview -o json`` with a connector file and a file of records.

The output must equal the original's results. Each configuration runs once, over all its records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.record_format import record_from_json, record_to_json
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run

CASES = Path(__file__).parent / "cases" / "transforms.jsonl"
ACCIDENTS = ("NullPointerException", "ClassCastException")
PREDICATES = "org.apache.kafka.connect.transforms.predicates."


def _connector_config(case: dict[str, Any]) -> dict[str, Any] | None:
    """Returns a case as a connector configuration. None for a single class that rejects its settings: in a connector the error
    message is another, with the connector's keys."""
    if case["class"] == "chain":
        return dict(case["config"])
    if case["stage"] == "configure":
        return None
    if case["class"].startswith(PREDICATES):
        stage, more = (
            "predicates.p.",
            {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.predicate": "p", "predicates": "p"},
        )
    else:
        stage, more = "transforms.t.", {"transforms": "t"}
    return {**more, f"{stage}type": case["class"], **{stage + key: value for key, value in case["config"].items()}}


def _cases_by_config() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for line in CASES.read_text("utf-8").splitlines():
        case = json.loads(line)
        config = _connector_config(case)
        # The class accepts lists with duplicates, but a connector rejects them.
        if config is not None and not any(
            _has_duplicates(value) for key, value in case["config"].items() if case["class"] != "chain"
        ):
            found.setdefault(json.dumps(config), []).append(case)
    yield from found.items()


def _has_duplicates(value: str | None) -> bool:
    parts = (value or "").split(",")
    return len(set(parts)) < len(parts)


def _difference(case: dict[str, Any], shown: dict[str, Any], code: int) -> str | None:
    expected = case["expected"]
    record, error = shown["record"], shown["error"]
    if isinstance(expected, dict) and "error" in expected:
        wanted = expected["error"]
        if error is None or error["stage"] != case["stage"] or (code == 2) != (case["stage"] == "configure"):
            return f"expected {wanted} in {case['stage']}"
        if wanted["class"] in ACCIDENTS:
            return None
        same_message = not wanted.get("compareMessage", True) or error["message"] == wanted["message"]
        return None if error["class"] == wanted["class"] and same_message else f"expected {wanted}"
    if error is not None or code != 0:
        return "expected no error"
    if isinstance(expected, bool):
        return None if (record is None) is expected else f"expected the predicate to be {expected}"
    return None if _normal(record) == _normal(expected) else f"expected {expected}"


def _normal(node: Any) -> Any:
    return None if node is None else record_to_json(record_from_json(node))


def test_preview_gives_the_result_of_the_original(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = build(COMMANDS)
    connector, records = tmp_path / "connector.json", tmp_path / "records.jsonl"
    wrong, count = [], 0
    for config, cases in _cases_by_config():
        connector.write_text(config)
        records.write_text("".join(json.dumps(case["input"]) + "\n" for case in cases))
        code = run(command, ["preview", str(connector), "--records", str(records), "-o", "json"])
        lines = capsys.readouterr().out.splitlines()
        assert len(lines) == len(cases), f"{cases[0]['id']}: one line for each input"
        for case, line in zip(cases, lines, strict=True):
            count += 1
            difference = _difference(case, json.loads(line), code)
            if difference is not None:
                wrong.append(f"{case['id']}: {difference}, got {line}")
    assert not wrong, "\n".join(wrong[:10])
    assert count > 250
