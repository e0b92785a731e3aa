"""The eager assignor, against what Apache's leader dealt out."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.unit.worker.group.cluster import Config
from worker.group.eager_assignor import assign_eagerly
from worker.group.protocol import CONFIG_MISMATCH, Assignment, WorkerMetadata, decode_assignment, decode_metadata
from worker.model import TaskId

RECORDED = [json.loads(line) for line in (Path(__file__).parent / "group_bytes.jsonl").read_text().splitlines()]
EAGER = [pytest.param(group["members"], id=group["after_step"]) for group in RECORDED if group["protocol"] == "default"]


@pytest.mark.parametrize("recorded", EAGER)
def test_assignments_equal_those_of_apaches_leader(recorded: list[dict[str, str]]) -> None:
    members = {one["member_id"]: decode_metadata(base64.b64decode(one["metadata_b64"])) for one in recorded}
    answers = {one["member_id"]: decode_assignment(base64.b64decode(one["assignment_b64"])) for one in recorded}
    some = next(iter(answers.values()))
    counts = {name: 0 for answer in answers.values() for name in answer.connectors}
    for answer in answers.values():
        for task in answer.tasks:
            counts[task.connector] += 1
    config = Config(some.config_offset, counts)
    ours = assign_eagerly(members, leader_id=some.leader, config=config, fresh_config=lambda: config)
    assert {m: as_sets(answer) for m, answer in ours.items()} == {m: as_sets(answer) for m, answer in answers.items()}


def as_sets(answer: Assignment) -> tuple[object, ...]:
    head = (answer.version, answer.error, answer.leader, answer.leader_url, answer.config_offset)
    return (*head, set(answer.connectors), set(answer.tasks))


def test_turn_continues_from_connectors_to_tasks() -> None:
    config = Config(4, {"b": 2, "a": 2})
    members = {name: WorkerMetadata(f"http://{name}/", 4) for name in ("m3", "m1", "m2")}
    answers = assign_eagerly(members, leader_id="m2", config=config, fresh_config=lambda: config)
    assert answers["m1"] == Assignment(0, 0, "m2", "http://m2/", 4, ("a",), (TaskId("a", 1),))
    assert answers["m2"] == Assignment(0, 0, "m2", "http://m2/", 4, ("b",), (TaskId("b", 0),))
    assert answers["m3"] == Assignment(0, 0, "m2", "http://m2/", 4, (), (TaskId("a", 0), TaskId("b", 1)))


def test_leader_that_is_behind_assigns_nothing() -> None:
    members = {"m1": WorkerMetadata("u1", 2), "m2": WorkerMetadata("u2", 9)}
    answers = assign_eagerly(members, leader_id="m1", config=Config(2, {"a": 1}), fresh_config=lambda: Config(8, {"a": 1}))
    assert answers == dict.fromkeys(members, Assignment(0, CONFIG_MISMATCH, "m1", "u1", 9))
