"""The transformations of a connector, applied to batches."""

from __future__ import annotations

from collections.abc import Sequence

from connect.record import ConnectRecord
from connect.transforms.chain import Step, close_steps
from worker.stages import Stage, StageError, whereabouts


class TransformChain:
    """Steps in order. Used on one task's thread. A chain without steps is falsy."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._steps = tuple(steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        """One result a record, None where it was dropped. Raises on the first bad record; then :meth:`apply` finds it."""
        results: list[ConnectRecord | None] = list(records)
        for step in self._steps:
            if step.predicate is None and None not in results:
                results = list(step.transformation.apply_batch(results))  # type: ignore[arg-type]
                continue
            chosen = [i for i, record in enumerate(results) if record is not None and step.runs_for(record)]
            if chosen:
                changed = step.transformation.apply_batch([results[i] for i in chosen])  # type: ignore[misc]
                for i, record in zip(chosen, changed, strict=True):
                    results[i] = record
        return results

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        """The same for one record. Raises StageError that names the step."""
        current: ConnectRecord | None = record
        for step in self._steps:
            if current is None:
                return None
            try:
                if step.runs_for(current):
                    current = step.transformation.apply(current)
            except Exception as e:
                raise StageError(Stage.TRANSFORMATION, step.transformation, whereabouts(record), e, step.alias) from e
        return current

    def close(self) -> None:
        """Closes every transformation and predicate."""
        close_steps(self._steps)
