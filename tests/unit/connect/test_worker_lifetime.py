"""The lifetime of a worker, as processes see it that serve all of its executors."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from connect.worker_lifetime import VARIABLE, WorkerLifetime, executor_scope
from tests.support.waiting import WAIT_S

# Waits until the worker ends, like a process that serves all executors.
WAIT = "import os, sys; os.write(1, b'started'); os.read(int(sys.argv[1]), 1)"
SCOPE = "from connect.worker_lifetime import executor_scope; print(executor_scope())"


def test_end_waits_for_the_processes_that_serve_the_worker() -> None:
    lifetime = WorkerLifetime()
    descriptor = lifetime.scope.descriptor
    process = subprocess.Popen([sys.executable, "-c", WAIT, str(descriptor)], pass_fds=[descriptor], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.read(7) == b"started"
    assert lifetime.end(30)
    assert process.wait(WAIT_S) == 0
    process.stdout.close()
    assert lifetime.end(0)


def test_end_reports_a_process_that_does_not_end_in_time() -> None:
    lifetime = WorkerLifetime()
    held = os.dup(lifetime.scope.descriptor)
    assert not lifetime.end(0.01)
    os.close(held)


def test_only_an_executor_of_the_worker_has_its_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)  # other tests share Spark's JVM
    lifetime = WorkerLifetime()
    assert executor_scope() is None
    descriptor, variables = lifetime.scope.descriptor, lifetime.variables()
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join(sys.path)}
    executor = [sys.executable, "-c", SCOPE]
    said = subprocess.run(executor, pass_fds=[descriptor], env=environment, capture_output=True, text=True, check=True).stdout
    assert said == f"{lifetime.scope}\n"
    # A process that an executor starts inherits the variable, but neither the descriptor nor the parent.
    said = subprocess.run(executor, env=environment, capture_output=True, text=True, check=True).stdout
    assert said == "None\n"
    monkeypatch.setenv(VARIABLE, variables[VARIABLE])
    assert executor_scope() is None
    lifetime.end(0)
