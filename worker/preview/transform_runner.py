"""Runs single records through the transformations of a configuration and reports the result of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.transforms.chain import Step, build_steps, close_steps
from worker.preview.errors import APPLY, PreviewFailure, build_failure


@dataclass(frozen=True, slots=True)
class TransformStep:
    """The result of one transformation for one record."""

    alias: str
    transformation: str
    """Class name."""
    predicate: str | None
    """``alias (class)``, or None when the transformation runs for every record."""
    ran: bool
    """False if the predicate skipped the transformation."""
    record: ConnectRecord | None
    """The resulting record. None if the transformation dropped the record or failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result for one record. If neither ``record`` nor ``failure`` is set, it was dropped."""

    record: ConnectRecord | None
    failure: PreviewFailure | None = None
    steps: Sequence[TransformStep] = field(default=())
    """One per transformation that the record reached; empty unless requested."""

    @property
    def dropped_by(self) -> TransformStep | None:
        """The transformation that dropped the record, if any and if steps were requested."""
        if self.failure is not None or self.record is not None or not self.steps:
            return None
        return self.steps[-1]


class TransformRunner:
    """The transformations of one configuration. Close after use."""

    def __init__(self, config: Mapping[str, str | None], plugins: Plugins) -> None:
        """Raises ConnectError for invalid settings, as a task does at startup."""
        self._steps = build_steps(config, plugins)
        self._predicates = {
            step.alias: config.get(f"transforms.{step.alias}.predicate") for step in self._steps if step.predicate is not None
        }

    def apply(self, record: ConnectRecord, *, with_steps: bool = False) -> Outcome:
        """Applies all transformations to a record, which is not changed itself. Never raises for an errant record."""
        steps: list[TransformStep] = []
        current: ConnectRecord | None = record
        for step in self._steps:
            if current is None:
                break
            try:
                ran = step.runs_for(current)
                current = step.transformation.apply(current) if ran else current
            except Exception as e:
                if with_steps:
                    steps.append(self._step(step, True, None))
                return Outcome(None, build_failure(e, APPLY, step.alias), steps)
            if with_steps:
                steps.append(self._step(step, ran, current))
        return Outcome(current, None, steps)

    def _step(self, step: Step, ran: bool, record: ConnectRecord | None) -> TransformStep:
        predicate = None
        if step.predicate is not None:
            not_ = "not " if step.negate else ""
            predicate = f"{not_}{self._predicates[step.alias]} ({type(step.predicate).__name__})"
        return TransformStep(step.alias, type(step.transformation).__name__, predicate, ran, record)

    def close(self) -> None:
        """Closes every transformation and predicate. May be called twice."""
        close_steps(self._steps)
