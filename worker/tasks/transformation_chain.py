"""The transformations of a connector, applied to batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from connect.errors import ConnectError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.chain import Step, apply_steps_batch, close_steps
from worker.errors.batch_failures import BatchFailures, salvage
from worker.errors.stages import Stage, StageError, run_stage, whereabouts

T = TypeVar("T")
Results = Sequence[ConnectRecord | None]


class TransformChain:
    """Steps in order. Used on one task's thread. A chain without steps is falsy."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._steps = tuple(steps)
        self._parts = list(_parts(self._steps))

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply_batch(self, records: Sequence[ConnectRecord | None], failures: BatchFailures) -> Results:
        """One result a record; None where there was none, it was dropped, or it failed, which ``failures`` then knows."""
        results: Results = records
        for part in self._parts:
            results = _one_by_one(part[0], results, failures) if _sees_once(part[0]) else _by_batch(part, results, failures)
            if failures:
                results = [record if failures.good(place) else None for place, record in enumerate(results)]
        return results

    def close(self) -> None:
        """Closes every transformation and predicate."""
        close_steps(self._steps)


def _sees_once(step: Step) -> bool:
    """Whether the transformation may be shown each record only once: without a batch method it is free to change records in
    place, as a user's own few lines do. One that has a batch method says by it that it can see them again."""
    return type(step.transformation).apply_batch is Transformation.apply_batch


def _parts(steps: Sequence[Step]) -> Iterator[Sequence[Step]]:
    """The steps in their order: those that see records once alone, the others together as far as they are neighbours."""
    together: list[Step] = []
    for step in steps:
        if not _sees_once(step):
            together.append(step)
            continue
        if together:
            yield together
            together = []
        yield [step]
    if together:
        yield together


def _by_batch(steps: Sequence[Step], given: Results, failures: BatchFailures) -> Results:
    def whole(places: Sequence[int]) -> Results:
        return _apply_steps_batch(steps, [given[place] for place in places])

    def one(place: int) -> ConnectRecord | None:
        record = given[place]
        for step in steps:
            if record is not None:
                record = _run(step, record, lambda step=step, record=record: _applied(step, record), failures)  # type: ignore[misc]
        return record

    try:
        return _apply_steps_batch(steps, given)
    except Exception:
        return salvage(range(len(given)), whole, one, failures, None)


def _apply_steps_batch(steps: Sequence[Step], given: Results) -> Results:
    changed = apply_steps_batch(steps, given)  # type: ignore[arg-type]  # it passes by what is None already
    if len(changed) != len(given):
        aliases = ", ".join(step.alias for step in steps)
        raise ConnectError(f"{len(changed)} results for {len(given)} records from apply_batch of transformations {aliases}")
    return changed


def _applied(step: Step, record: ConnectRecord) -> ConnectRecord | None:
    return step.transformation.apply(record) if step.runs_for(record) else record


def _one_by_one(step: Step, given: Results, failures: BatchFailures) -> Results:
    results: list[ConnectRecord | None] = []
    rest = iter(given)
    apply, unconditional = step.transformation.apply, step.predicate is None
    while len(results) < len(given) and len(results) < failures.end:
        try:
            for record in rest:  # after a record that failed it goes on with the next
                runs = record is not None and (unconditional or step.runs_for(record))
                results.append(apply(record) if runs else record)  # type: ignore[arg-type]
        except Exception as e:
            place = len(results)
            failed: ConnectRecord = given[place]  # type: ignore[assignment]  # None cannot fail
            results.append(_retried(step, failed, e, place, failures))
    return results + [None] * (len(given) - len(results))


def _retried(step: Step, record: ConnectRecord, error: Exception, place: int, failures: BatchFailures) -> ConnectRecord | None:
    """The result of a record that failed once with ``error``; None when that is its end."""
    errors = [error]

    def again() -> ConnectRecord | None:
        if errors:
            raise errors.pop()
        return _applied(step, record)

    try:
        return _run(step, record, again, failures)
    except StageError as e:
        failures.add(place, e)
        return None


def _run(step: Step, record: ConnectRecord, operation: Callable[[], T], failures: BatchFailures) -> T:
    return run_stage(
        Stage.TRANSFORMATION, step.transformation, lambda: whereabouts(record), failures.attempt, operation, step.alias
    )
