"""Finds out where a job failed. Spark's exception does not say so if adaptive execution ran the job."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from connectors.spark.errors import ON_HOST

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_IN_EXECUTOR = "executor.Executor$TaskRunner"
_EVENTS_MS = 5_000
"""How long Spark's own record of jobs may be behind."""
_MOST_TASKS = 100


def note_failed_task(error: BaseException, session: SparkSession) -> None:
    """Adds a note to the error that names the host and the executor where it occurred (:data:`ON_HOST` matches it). Does nothing
    if the error has them already, or did not come from an executor of a cluster. Never raises."""
    text = str(error)
    if _IN_EXECUTOR not in text or ON_HOST.search(text):
        return
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if not line.lstrip().startswith("at ")]
    message = next((line for line in lines if line and not line.startswith("An error occurred while calling")), "")
    try:
        for host, executor, reason in _failed_tasks(session):
            if message and message in reason:
                error.add_note(f"Lost task ({host} executor {executor})")
                return
    except Exception as e:
        log.debug("Spark does not say which of its tasks failed: %s", e)


def _failed_tasks(session: SparkSession) -> Iterator[tuple[str, str, str]]:
    """Host, executor, and error of tasks of recent jobs that failed, newest jobs first."""
    java_session: Any = session._jsparkSession
    context = java_session.sparkContext()
    if context.isLocal():
        return
    context.listenerBus().waitUntilEmpty(_EVENTS_MS)
    tracker, store = context.statusTracker(), context.statusStore()
    for job in sorted(tracker.getJobIdsForGroup(None), reverse=True):
        found = tracker.getJobInfo(job)
        for stage in found.get().stageIds() if found.isDefined() else ():
            tasks = store.taskList(stage, store.lastStageAttempt(stage).attemptId(), _MOST_TASKS)
            for task in (tasks.apply(number) for number in range(tasks.size())):
                reason = task.errorMessage()
                if reason.isDefined():
                    yield task.host(), task.executorId(), reason.get()
