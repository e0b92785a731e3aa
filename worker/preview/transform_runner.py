"""One record at a time through the transformations of a configuration, with what each of them did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.transforms.chain import Step, build_steps, close_steps
from worker.preview.errors import APPLY, PreviewFailure, build_failure


@dataclass(frozen=True, slots=True)
class TransformStep:
    """What one transformation did with one record."""

    alias: str
    transformation: str
    """Class name."""
    predicate: str | None
    """``alias (class)``, or None when the transformation runs for every record."""
    ran: bool
    """False when the predicate let the record pass by."""
    record: ConnectRecord | None
    """What came out. None when the record was dropped, or when this transformation failed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one record. Neither ``record`` nor ``failure``: it was dropped."""

    record: ConnectRecord | None
    failure: PreviewFailure | None = None
    steps: Sequence[TransformStep] = field(default=())
    """One for each transformation that the record came to; empty unless they were asked for."""

    @property
    def dropped_by(self) -> TransformStep | None:
        """The transformation that dropped the record, if one did and steps were asked for."""
        if self.failure is not None or self.record is not None or not self.steps:
            return None
        return self.steps[-1]


class TransformRunner:
    """The transformations of one configuration. Close it after use."""

    def __init__(self, config: Mapping[str, str | None], plugins: Plugins) -> None:
        """Raises ConnectError with what is wrong, as a task does at its start."""
        self._steps = build_steps(config, plugins)
        self._predicates = {
            step.alias: config.get(f"transforms.{step.alias}.predicate") for step in self._steps if step.predicate is not None
        }

    def outcome(self, record: ConnectRecord, *, with_steps: bool = False) -> Outcome:
        """What becomes of a record; it is not changed itself. Never raises for a bad one."""
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
                    steps.append(self._passage(step, True, None))
                return Outcome(None, build_failure(e, APPLY, step.alias), steps)
            if with_steps:
                steps.append(self._passage(step, ran, current))
        return Outcome(current, None, steps)

    def _passage(self, step: Step, ran: bool, record: ConnectRecord | None) -> TransformStep:
        predicate = None
        if step.predicate is not None:
            not_ = "not " if step.negate else ""
            predicate = f"{not_}{self._predicates[step.alias]} ({type(step.predicate).__name__})"
        return TransformStep(step.alias, type(step.transformation).__name__, predicate, ran, record)

    def close(self) -> None:
        """Closes every transformation and predicate. May be called twice."""
        close_steps(self._steps)
