"""What workers show of the scheduled verifications of a connector."""

from __future__ import annotations

import re
import urllib.request
from typing import Any

import psutil

from connect.errors import NotFoundError
from tests.cluster.worker_process import WorkerProcess
from tests.support.waiting import WAIT_S, eventually

_SAMPLE = re.compile(r'(sluice_verification_\w+){connector="([^"]+)".*} (\S+)')


def verification_processes(*workers: WorkerProcess) -> list[psutil.Process]:
    found = []
    for worker in workers:
        for child in psutil.Process(worker.pid).children(recursive=True):
            try:
                if "--worker-link" in " ".join(child.cmdline()):
                    found.append(child)
            except psutil.NoSuchProcess:
                continue
    return found


def wait_for_run(worker: WorkerProcess) -> psutil.Process:
    """Waits until a verification is in progress, and returns its process, which may have ended since."""
    found: list[psutil.Process] = []

    def is_in_progress() -> bool:
        found.extend(verification_processes(worker))
        return bool(found)

    eventually(is_in_progress, "the next run")
    return found[0]


def has_ended(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True  # between the two questions


def shown(worker: WorkerProcess, name: str = "sink") -> dict[str, Any]:
    try:
        return worker.client.verification(name)
    except NotFoundError:
        return {}


def last_ms(worker: WorkerProcess, name: str = "sink") -> int:
    return int((shown(worker, name).get("schedule") or {}).get("last_ms") or 0)


def wait_for(worker: WorkerProcess, after_ms: int, name: str = "sink", **members: Any) -> dict[str, Any]:
    """Waits for a run that ended after a time, with these members."""
    seen: list[dict[str, Any]] = []

    def is_there() -> bool:
        seen.append(shown(worker, name))
        return last_ms(worker, name) > after_ms and all(seen[-1].get(name) == value for name, value in members.items())

    eventually(is_there, "the run", lambda: (seen[-1], worker.log_tail()))
    return seen[-1]


def wait_for_failure(worker: WorkerProcess, text: str) -> dict[str, Any]:
    """Waits until the last run of the connector ``sink`` has failed with a text."""
    eventually(
        lambda: text in str((shown(worker).get("schedule") or {}).get("error")),
        f"the failure {text}", lambda: (shown(worker), worker.log_tail()),
    )  # fmt: skip
    return shown(worker)


def verification_metrics(worker: WorkerProcess) -> dict[tuple[str, str], float]:
    """Returns the samples of verifications by metric, without its common prefix, and connector."""
    with urllib.request.urlopen(f"{worker.url}/metrics", timeout=WAIT_S) as answer:
        found = _SAMPLE.findall(answer.read().decode())
    return {(name.removeprefix("sluice_verification_"), connector): float(value) for name, connector, value in found}


def problems(worker: WorkerProcess) -> dict[str, dict[str, Any]]:
    """Returns what the diagnosis says about the connector ``sink``, by code."""
    return {one["code"]: one for one in worker.client.diagnosis("sink")["problems"]}
