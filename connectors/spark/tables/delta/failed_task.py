"""Finds out where a job failed. Spark's exception does not say so if adaptive execution ran the job."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

_IN_EXECUTOR, _WITH_PLACE = "executor.Executor$TaskRunner", "Lost task"
_EVENTS_MS = 5_000
"""How long Spark's own record of jobs may be behind."""


def note_failed_task(error: BaseException, session: SparkSession) -> None:
    """Adds Spark's description of the task that failed with this error, which names executor and host, as a note to the error.
    Does nothing if the error has the place already, or did not come from an executor of a cluster. Never raises."""
    text = str(error)
    if _IN_EXECUTOR not in text or _WITH_PLACE in text:
        return
    lines = [line.strip().removeprefix(": ") for line in text.splitlines() if not line.lstrip().startswith("at ")]
    messages = [line for line in lines if line and not line.startswith("An error occurred while calling")][:1]
    try:
        for reason in _failure_reasons(session):
            if any(message in reason for message in messages):
                error.add_note(reason.partition("\n")[0])
                return
    except Exception as e:
        log.debug("Spark does not say which of its tasks failed: %s", e)


def _failure_reasons(session: SparkSession) -> Iterator[str]:
    """Why stages of recent jobs have failed, newest first."""
    java_session: Any = session._jsparkSession
    context = java_session.sparkContext()
    if context.isLocal():
        return
    context.listenerBus().waitUntilEmpty(_EVENTS_MS)
    tracker, store = context.statusTracker(), context.statusStore()
    for job in sorted(tracker.getJobIdsForGroup(None), reverse=True):
        found = tracker.getJobInfo(job)
        for stage in found.get().stageIds() if found.isDefined() else ():
            reason = store.lastStageAttempt(stage).failureReason()
            if reason.isDefined():
                yield str(reason.get())
