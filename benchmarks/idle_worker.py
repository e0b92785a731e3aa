"""A distributed worker without connectors: CPU time of a minute and memory of all its processes, with everything disabled that a
key can disable and nothing asked, with plain settings, with what operators enable (authentication, roles, audit log, JSON logs),
and with traces besides. Metrics and the web page are asked for once where they are on. With ``IDLE_WORKER_TREE=DIR``, a worker of
another checkout of Sluice is measured too, with plain settings. ``more`` is how much more each one needs than the first."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from benchmarks.cluster import BenchCluster, ClusterWorker, memory
from benchmarks.environment import BenchmarkEnvironment, environment
from rest.security.passwords import hash_token

IDLE_S = 60.0
SETTLE_S = 15.0
ASKED = {"more_cores": 0.01, "more_pss_mb": 15}
TREE = os.environ.get("IDLE_WORKER_TREE")
DISABLED = {"ui.enabled": "false", "task.stall.timeout.ms": "0"}


def operated(here: BenchmarkEnvironment) -> Mapping[str, str]:
    (here.home / "tokens").write_text(f"viewer:{hash_token('viewer')}\n", encoding="ascii")
    (here.home / "roles.yaml").write_text("bindings: [{role: viewer, users: [viewer]}]\n", encoding="ascii")
    return {
        "rest.authentication": "bearer",
        "rest.authentication.tokens.file": str(here.home / "tokens"),
        "rest.authorization.roles.file": str(here.home / "roles.yaml"),
        "rest.authentication.exempt.paths": "/health,/metrics",
        "rest.audit.log.file": str(here.home / "audit"),
        "log.format": "json",
    }


def measure(worker: ClusterWorker, paths: Sequence[str]) -> dict[str, float]:
    for path in paths:
        worker.ask("GET", path)
    time.sleep(SETTLE_S)
    cpu_s, started_at = worker.process.cpu_s(), time.monotonic()
    time.sleep(IDLE_S)
    used_s, found = worker.process.cpu_s() - cpu_s, memory(worker.process.child.pid)
    return {
        "cpu_s": round(used_s, 2),
        "cores": round(used_s / (time.monotonic() - started_at), 4),
        "pss_mb": found.pss_mb,
        "rss_mb": found.rss_mb,
        "threads": found.threads,
        "processes": found.processes,
    }


@contextmanager
def other_tree(path: str) -> Iterator[None]:
    """Starts workers of another checkout meanwhile."""
    before, python_path = Path.cwd(), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = path
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
        del os.environ["PYTHONPATH"]
        if python_path is not None:
            os.environ["PYTHONPATH"] = python_path


def main() -> None:
    found: dict[str, dict[str, float]] = {}
    with environment() as here:
        enabled = operated(here)
        asked = ("/metrics", "/ui/")
        variants = {
            "disabled": (DISABLED, ()),
            "plain": ({}, asked),
            "operated": (enabled, asked),
            "traced": ({**enabled, "tracing.enabled": "true"}, asked),
        }
        if TREE is not None:
            with other_tree(TREE), BenchCluster(here, {}).workers() as (worker,):
                found["other_tree"] = measure(worker, ())
        for name, (settings, paths) in variants.items():
            with BenchCluster(here, settings).workers() as (worker,):
                found[name] = measure(worker, paths)
    first = next(iter(found.values()))
    more = {
        name: {"cores": round(one["cores"] - first["cores"], 4), "pss_mb": round(one["pss_mb"] - first["pss_mb"], 1)}
        for name, one in found.items()
        if one is not first
    }
    line = {"benchmark": "idle_worker", "seconds": IDLE_S, "tree": TREE, **found, "more": more, "asked": ASKED}
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
