"""``/sluice/diagnosis`` and ``/sluice/connectors/{connector}/diagnosis``: what is wrong, why, and what fixes it.

A worker knows the states of all tasks, and the live figures of its own. It asks the other workers that run tasks for the problems
that only they see.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from connect.config.finding import Finding, Severity
from connect.errors import ConnectError, NotFoundError
from rest.forwarding.peers import peers_of
from rest.responses import json_response
from rest.security.access import access_of
from worker.herder import DiagnosisReader
from worker.model import State, TaskId, TaskProgress
from worker.observability.diagnosis.problem import Problem, sort_problems
from worker.observability.diagnosis.rules import diagnose
from worker.observability.diagnosis.snapshot import ClusterSnapshot, ConnectorSnapshot, VerificationFacts
from worker.observability.verifications import missing_tables

_WORKER_SCOPE = "worker"
_WORKER_TIMEOUT_S = 10.0
_CLOCK_MS = 5_000


def add_diagnosis_routes(router: APIRouter, herder: DiagnosisReader) -> None:
    """Adds the diagnosis of all connectors, and that of one."""

    @router.get("/sluice/diagnosis", tags=["sluice"], summary="What is wrong with all connectors, failures first")
    def diagnosis(request: Request, scope: str = "") -> Response:
        return json_response(
            _diagnose(herder, request, access_of(request).visible(herder.connectors()), scope, "/sluice/diagnosis", is_all=True)
        )

    @router.get("/sluice/connectors/{connector}/diagnosis", tags=["sluice"], summary="What is wrong with a connector")
    def connector_diagnosis(request: Request, connector: str, scope: str = "") -> Response:
        herder.connector_info(connector)  # raises NotFoundError
        path = f"/sluice/connectors/{quote(connector, safe='')}/diagnosis"
        return json_response(_diagnose(herder, request, [connector], scope, path, is_all=False))


def _diagnose(
    herder: DiagnosisReader, request: Request, names: Sequence[str], scope: str, path: str, *, is_all: bool
) -> dict[str, Any]:
    unseen: list[str] = []
    connectors = _read_connectors(herder, names)
    only_worker = herder.worker_id if scope == _WORKER_SCOPE else None
    cluster = ClusterSnapshot(connectors, _now_ms(), only_worker=only_worker)
    if only_worker is None:
        health = herder.health()
        cluster = ClusterSnapshot(
            connectors,
            _now_ms(),
            health.status,
            health.message,
            herder.kafka_facts(connectors),
            _plugins(herder, unseen),
            herder.rebalance_times_ms(),
        )
    problems = diagnose(cluster)
    if only_worker is None:
        problems = sort_problems([*problems, *_ask_others(herder, request, connectors, path, unseen)])
    shown = [one.masked(herder.mask_secrets).as_json() for one in problems]
    name = {} if is_all else {"name": names[0]}
    return {**name, "worker_id": herder.worker_id, "at_ms": _now_ms(), "problems": shown, "unseen": unseen}


def _read_connectors(herder: DiagnosisReader, names: Sequence[str]) -> list[ConnectorSnapshot]:
    statuses = {status.name: status for status in herder.connector_statuses(names)}
    # All are asked for at once: those of tasks that hang take a while.
    found = herder.progress_of(
        [
            TaskId(name, number)
            for name, status in statuses.items()
            for number, task in status.tasks
            if task.worker_id == herder.worker_id and task.state is State.RUNNING
        ]
    )
    progress: dict[str, dict[int, TaskProgress]] = {}
    for task, one in found.items():
        progress.setdefault(task.connector, {})[task.task] = one
    connectors = []
    for name in names:
        try:
            info = herder.connector_info(name)
        except NotFoundError:
            continue  # deleted in the meantime
        snapshot = ConnectorSnapshot.of_models(info, statuses.get(name), progress.get(name, {}))
        connectors.append(replace(snapshot, verification=_verification(herder, name)))
    return connectors


def _verification(herder: DiagnosisReader, name: str) -> VerificationFacts:
    result, schedule = herder.verifications.get(name), herder.verification_schedule(name) or {}
    found = VerificationFacts()
    # Results of a source are shown by its sinks.
    if result is not None and (result.document.get("source") != name or result.document.get("sink") == name):
        found = VerificationFacts(result.differences, missing_tables(result), result.stored_ms)
    if schedule.get("error") is None or schedule["paused"]:
        return found
    return replace(
        found,
        error=schedule["error"],
        failing_since_ms=schedule["failing_since_ms"] or schedule["last_ms"],
        worker_id=schedule["worker_id"],
        next_ms=schedule["next_ms"],
    )


def _plugins(herder: DiagnosisReader, unseen: list[str]) -> frozenset[str] | None:
    try:
        classes = [one["class"] for one in herder.plugins(connectors_only=True)]
    except ConnectError as e:
        unseen.append(f"the worker's plugins: {herder.mask_secrets(e.message)}")
        return None
    simple = [name.rpartition(".")[2].rpartition(":")[2] for name in classes]
    return frozenset([*classes, *simple, *(name.removesuffix("Connector") for name in simple)])


def _ask_others(
    herder: DiagnosisReader, request: Request, connectors: Sequence[ConnectorSnapshot], path: str, unseen: list[str]
) -> list[Problem]:
    workers = {task.worker_id for one in connectors for task in one.tasks if task.state == State.RUNNING.value}
    workers -= {herder.worker_id, ""}
    if not workers:
        return []
    sent_ms = _now_ms()
    answers = peers_of(request).get(request, workers, f"{path}?scope={_WORKER_SCOPE}", _WORKER_TIMEOUT_S)
    errors, found = dict(answers.errors), list[Problem]()
    for worker, answer in answers.found.items():
        try:
            found += [Problem.of_json(one) for one in answer["problems"]]
            unseen.extend(str(one) for one in answer["unseen"])
            found += _clock_problem(worker, answer["at_ms"], sent_ms)
        except (ConnectError, ValueError, KeyError, TypeError) as e:
            errors[worker] = f"its answer is not a diagnosis: {e}"
    unseen += [
        f"the live figures of tasks on worker {worker}: {herder.mask_secrets(errors[worker])}" for worker in sorted(errors)
    ]
    return found


def _clock_problem(worker: str, at_ms: int, sent_ms: int) -> list[Problem]:
    now_ms = _now_ms()
    off_ms = max(sent_ms - at_ms, at_ms - now_ms)
    if off_ms <= _CLOCK_MS:
        return []
    finding = Finding(
        "clock-skew", Severity.WARNING, f"the clock of worker {worker} differs by {off_ms / 1000:.0f} s", None,
        "Synchronize the clocks of the workers' machines (NTP).",
    )  # fmt: skip
    return [Problem(finding, cause="timestamps, session keys, and time limits go by the workers' clocks")]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
