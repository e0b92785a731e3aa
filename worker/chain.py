"""The transformations of a connector, applied to batches."""

from __future__ import annotations

from collections.abc import Sequence

from connect.record import ConnectRecord
from connect.transforms.chain import Step, apply_steps_batch, close_steps
from worker.stages import Stage, StageError, whereabouts


class TransformChain:
    """Steps in order. Used on one task's thread. A chain without steps is falsy."""

    def __init__(self, steps: Sequence[Step] = ()) -> None:
        self._steps = tuple(steps)

    def __bool__(self) -> bool:
        return bool(self._steps)

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        """One result a record, None where it was dropped. Raises on the first bad record; then :meth:`apply` finds it."""
        return apply_steps_batch(self._steps, records)

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
