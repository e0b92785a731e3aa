"""The transformations of a connector, applied to batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from connect.errors import ConfigError
from connect.record import ConnectRecord
from connect.transforms.api import Predicate, Transformation
from worker.stages import Stage, StageError, whereabouts


@dataclass(frozen=True, slots=True)
class Step:
    """One transformation, with the predicate that says for which records it runs."""

    alias: str
    transformation: Transformation
    predicate: Predicate | None = None
    negate: bool = False


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
            chosen = [i for i, record in enumerate(results) if record is not None and _runs(step, record)]
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
                if step.predicate is None or _runs(step, current):
                    current = step.transformation.apply(current)
            except Exception as e:
                raise StageError(Stage.TRANSFORMATION, step.transformation, whereabouts(record), e, step.alias) from e
        return current

    def close(self) -> None:
        """Closes every transformation and predicate."""
        for step in self._steps:
            step.transformation.close()
            if step.predicate is not None:
                step.predicate.close()


def _runs(step: Step, record: ConnectRecord) -> bool:
    return step.predicate is None or step.predicate.test(record) is not step.negate


def build_chain(
    config: Mapping[str, str | None],
    load_transformation: Callable[[str], type[Transformation]],
    load_predicate: Callable[[str], type[Predicate]],
) -> TransformChain:
    """Makes and configures what ``transforms`` and ``predicates`` of a connector's configuration name. Raises ConfigError."""
    predicates: dict[str, Predicate] = {}
    for alias in _aliases(config, "predicates"):
        predicate = load_predicate(_class_name(config, f"predicates.{alias}.type"))()
        predicate.configure(_below(config, f"predicates.{alias}."))
        predicates[alias] = predicate
    steps = []
    for alias in _aliases(config, "transforms"):
        prefix = f"transforms.{alias}."
        transformation = load_transformation(_class_name(config, f"{prefix}type"))()
        transformation.configure(_below(config, prefix, "predicate", "negate"))
        named = config.get(f"{prefix}predicate")
        if named and named not in predicates:
            known = ", ".join(sorted(predicates)) or "none"
            raise ConfigError.invalid(f"{prefix}predicate", named, f"no such predicate; those in 'predicates' are: {known}")
        negate = (config.get(f"{prefix}negate") or "").strip().lower() == "true"
        steps.append(Step(alias, transformation, predicates[named] if named else None, negate))
    return TransformChain(steps)


def _aliases(config: Mapping[str, str | None], key: str) -> list[str]:
    return [alias.strip() for alias in (config.get(key) or "").split(",") if alias.strip()]


def _class_name(config: Mapping[str, str | None], key: str) -> str:
    name = config.get(key)
    if not name:
        raise ConfigError(f'Missing required configuration "{key}" which has no default value.', key=key)
    return name


def _below(config: Mapping[str, str | None], prefix: str, *without: str) -> dict[str, Any]:
    left_out = {"type", *without}
    below = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix)}
    return {key: value for key, value in below.items() if key not in left_out}
