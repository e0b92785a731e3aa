"""Applies a connector's transformations to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from connect.errors import ConnectError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.chain import Step, apply_steps_batch, close_steps
from worker.errors.batch_failures import BatchFailures, isolate_failures
from worker.errors.stages import RecordStage, StageError, record_location, run_stage

T = TypeVar("T")
Results = Sequence[ConnectRecord | None]


class TransformationChain:
    """Transformations in order. Used on one task's thread. A chain without steps is falsy."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._steps = tuple(steps)
        self._groups = list(_groups(self._steps))

    def __bool__(self) -> bool:
        return bool(self._steps)

    @property
    def steps(self) -> Sequence[Step]:
        return self._steps

    def apply_batch(self, records: Sequence[ConnectRecord | None], failures: BatchFailures) -> Results:
        """Returns one result per record; None for one that was dropped or failed. Adds those that fail to ``failures``."""
        results: Results = records
        for group in self._groups:
            results = (
                _one_by_one(group[0], results, failures) if _sees_record_once(group[0]) else _by_batch(group, results, failures)
            )
            if failures:
                results = [record if failures.is_good(index) else None for index, record in enumerate(results)]
        return results

    def transformations(self) -> list[Transformation]:
        """Returns the transformations in order."""
        return [step.transformation for step in self._steps]

    def close(self) -> None:
        """Closes every transformation and predicate."""
        close_steps(self._steps)


def _sees_record_once(step: Step) -> bool:
    """Whether the transformation must get each record only once: without a batch method it may change records in place, as
    short user-written ones do. A transformation with a batch method can be called again with the same records."""
    return type(step.transformation).apply_batch is Transformation.apply_batch


def _groups(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """Groups the steps, in order: each one that must see records once by itself, adjacent others together."""
    together: list[Step] = []
    for step in steps:
        if not _sees_record_once(step):
            together.append(step)
            continue
        if together:
            yield together
            together = []
        yield [step]
    if together:
        yield together


def _by_batch(steps: Sequence[Step], records: Results, failures: BatchFailures) -> Results:
    def apply_together(indexes: Sequence[int]) -> Results:
        return _apply_steps_batch(steps, [records[index] for index in indexes])

    def apply_one(index: int) -> ConnectRecord | None:
        record = records[index]
        for step in steps:
            if record is not None:
                record = _run_step(step, record, lambda step=step, record=record: _apply_step(step, record), failures)  # type: ignore[misc]
        return record

    try:
        return _apply_steps_batch(steps, records)
    except Exception:
        return isolate_failures(range(len(records)), apply_together, apply_one, failures, None)


def _apply_steps_batch(steps: Sequence[Step], records: Results) -> Results:
    changed = apply_steps_batch(steps, records)  # type: ignore[arg-type]  # it skips None
    if len(changed) != len(records):
        aliases = ", ".join(step.alias for step in steps)
        raise ConnectError(f"{len(changed)} results for {len(records)} records from apply_batch of transformations {aliases}")
    return changed


def _apply_step(step: Step, record: ConnectRecord) -> ConnectRecord | None:
    return step.transformation.apply(record) if step.runs_for(record) else record


def _one_by_one(step: Step, records: Results, failures: BatchFailures) -> Results:
    results: list[ConnectRecord | None] = []
    rest = iter(records)
    apply, unconditional = step.transformation.apply, step.predicate is None
    while len(results) < len(records) and len(results) < failures.end:
        try:
            for record in rest:  # after a failed record, continues with the next one
                runs = record is not None and (unconditional or step.runs_for(record))
                results.append(apply(record) if runs else record)  # type: ignore[arg-type]
        except Exception as e:
            index = len(results)
            failed: ConnectRecord = records[index]  # type: ignore[assignment]  # None cannot fail
            results.append(_retry(step, failed, e, index, failures))
    return results + [None] * (len(records) - len(results))


def _retry(step: Step, record: ConnectRecord, error: Exception, index: int, failures: BatchFailures) -> ConnectRecord | None:
    """Retries a record that failed once with ``error``. Returns its result; None if it fails for good."""
    errors = [error]

    def again() -> ConnectRecord | None:
        if errors:
            raise errors.pop()
        return _apply_step(step, record)

    try:
        return _run_step(step, record, again, failures)
    except StageError as e:
        failures.add(index, e)
        return None


def _run_step(step: Step, record: ConnectRecord, operation: Callable[[], T], failures: BatchFailures) -> T:
    return run_stage(
        RecordStage.TRANSFORMATION, step.transformation, lambda: record_location(record), failures.attempt, operation, step.alias
    )
