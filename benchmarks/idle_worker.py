"""A distributed worker without connectors: CPU time of a minute and memory of all its processes, with plain settings, with what
operators enable (authentication, roles, audit log, JSON logs), and with traces besides. Metrics and the web page are always on.
With ``IDLE_WORKER_TREE=DIR``, another checkout of Sluice is measured instead, with plain settings."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

from benchmarks.cluster import BenchCluster, ClusterWorker, memory
from benchmarks.environment import BenchmarkEnvironment, environment
from rest.security.passwords import hash_token

IDLE_S = 60.0
SETTLE_S = 15.0
ASKED = {"more_cores": 0.01, "more_pss_mb": 15}
TREE = os.environ.get("IDLE_WORKER_TREE")


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


def measure(worker: ClusterWorker) -> dict[str, float]:
    worker.ask("GET", "/metrics")
    worker.ask("GET", "/ui/")
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


def main() -> None:
    line: dict[str, object] = {"benchmark": "idle_worker", "seconds": IDLE_S, "tree": TREE or "this one"}
    with environment() as here:
        enabled = operated(here)
        variants = {"plain": {}, "operated": enabled, "traced": {**enabled, "tracing.enabled": "true"}}
        for name, settings in variants.items() if TREE is None else [("plain", {})]:
            if TREE is not None:
                os.environ["PYTHONPATH"] = TREE
                os.chdir(TREE)
            with BenchCluster(here, settings).workers() as (worker,):
                line[name] = measure(worker)
    print(json.dumps({**line, "asked": ASKED}), flush=True)


if __name__ == "__main__":
    main()
