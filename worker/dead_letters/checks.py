"""Runs dead letters through converters and transformations, as the connector's task would, and decodes them for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from connect.data.headers import Headers
from connect.errors import ConfigError, ConnectError, DataError
from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.record_format import payload_to_json, record_to_json
from worker.config.secrets import SecretMask
from worker.dead_letters.letters import DeadLetter, is_source_queue, shown_bytes
from worker.dead_letters.records import copy_whole, mask_failure, read_record
from worker.kafka.dead_letter_topic import RecordToWrite
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import PreviewFailure
from worker.preview.transform_runner import Outcome, TransformRunner

_MAX_SHOWN_BYTES = 16_384
_NOT_CHECKED = frozenset({"TASK_PUT", "KAFKA_PRODUCE", "TASK_POLL"})
"""Stages that only a running task has."""


class Verdict(Enum):
    """What would happen to a dead letter."""

    PASSES = "passes"
    DROPPED = "dropped"
    """A transformation drops it: nothing fails."""
    UNVERIFIED = "unverified"
    """Converters and transformations pass, but it failed in the sink or at the broker."""
    FAILS = "fails"
    SUPERSEDED = "superseded"
    """The topic has a newer record of the same key."""
    WITHHELD = "withheld"
    """The transformations of the replay drop it, or fail."""
    UNCHECKED = "unchecked"
    """The request asks for no check."""


@dataclass(frozen=True, slots=True)
class LetterCheck:
    """The result for one dead letter."""

    verdict: Verdict
    failure: PreviewFailure | None = None
    before: ConnectRecord | None = None
    """The record of the dead letter."""
    after: ConnectRecord | None = None
    """The record after the connector's transformations."""
    written: Message | None = None
    """The message of a source's record."""
    partition: int | None = None
    """Where the record of a source goes."""
    changed: ConnectRecord | None = None
    """The record that is replayed, if the replay has transformations."""
    dropped_by: str | None = None
    """The alias of the transformation that drops it."""


class LetterChecks:
    """The converters and transformations of one configuration. Runs code of plugins. Close after use."""

    def __init__(
        self, config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins, mask: SecretMask
    ) -> None:
        """Raises ConnectError for invalid settings."""
        self._is_source = is_source_queue(config)
        self._mask = mask
        self._converters = PreviewConverters(config, worker, plugins)
        try:
            self._runner = TransformRunner(config, plugins)
        except BaseException:
            self._converters.close()
            raise

    def check(self, letter: DeadLetter) -> LetterCheck:
        """Returns what would happen to a dead letter. Never raises for an errant record."""
        converters = None if self._is_source else self._converters
        given = read_record(letter, converters)
        if isinstance(given, PreviewFailure):
            return LetterCheck(Verdict.FAILS, mask_failure(given, self._mask))
        # A transformation may change the record that it gets.
        before = copy_whole(given)
        outcome = self._runner.apply(given, with_steps=True)
        written = None
        if self._is_source and outcome.record is not None:
            message = self._converters.write(outcome.record)
            if isinstance(message, PreviewFailure):
                outcome = Outcome(None, message)
            else:
                written = message
        if outcome.failure is not None:
            return LetterCheck(Verdict.FAILS, mask_failure(outcome.failure, self._mask), before)
        if outcome.record is None:
            dropped_by = None if outcome.dropped_by is None else outcome.dropped_by.alias
            return LetterCheck(Verdict.DROPPED, None, before, dropped_by=dropped_by)
        verdict = Verdict.UNVERIFIED if letter.context.stage in _NOT_CHECKED else Verdict.PASSES
        return LetterCheck(verdict, None, before, outcome.record, written, outcome.record.partition)

    def decode(self, letter: DeadLetter) -> dict[str, Any]:
        """Returns key and value as JSON where the converters can read them; a part that they cannot read is omitted."""
        if self._is_source:
            return {}
        stored = letter.stored
        topic = letter.context.topic or stored.topic
        raw = Headers()
        for name, data in letter.original_headers:
            raw.add(name, data, None)
        found: dict[str, Any] = {}
        for part, data in (("key", stored.key), ("value", stored.value)):
            if data is None or len(data) > _MAX_SHOWN_BYTES:
                continue
            try:
                schema, value = self._converters.decode_part(part, topic, data, raw)
                found[part] = payload_to_json(schema, value)
            except Exception:
                continue  # its failure is what the headers describe
        return found

    def close(self) -> None:
        self._runner.close()
        self._converters.close()


def make_checks(
    config: Mapping[str, str | None], worker: Mapping[str, str] | None, plugins: Plugins, mask: SecretMask
) -> LetterChecks | str:
    """Returns the checks, or why there are none: a class that is not available here, or invalid settings."""
    try:
        return LetterChecks(config, worker, plugins, mask)
    except ConnectError as e:
        return mask.mask(e.message)


def letter_json(
    letter: DeadLetter, cause: str, *, replayed: bool, decoded: Mapping[str, Any], with_trace: bool
) -> dict[str, Any]:
    """Returns a dead letter as REST shows it."""
    stored = letter.stored
    parts = {}
    for part, data in (("key", stored.key), ("value", stored.value)):
        shown = shown_bytes(data, _MAX_SHOWN_BYTES)
        parts[part] = None if shown is None else {**shown, **({"decoded": decoded[part]} if part in decoded else {})}
    return {
        "partition": stored.partition,
        "offset": stored.offset,
        "timestamp_ms": stored.timestamp_ms,
        "cause": cause,
        "replayed": replayed,
        "context": letter.context.as_json(with_trace=with_trace),
        **parts,
        "headers": [{"key": name, "value": shown_bytes(data, _MAX_SHOWN_BYTES)} for name, data in letter.original_headers],
    }


def check_json(letter: DeadLetter, check: LetterCheck) -> dict[str, Any]:
    """Returns the result of a check as REST shows it."""
    return {
        "partition": letter.stored.partition,
        "offset": letter.stored.offset,
        "verdict": check.verdict.value,
        "error": None if check.failure is None else check.failure.as_json(),
        "dropped_by": check.dropped_by,
        "before": _record_json(check.before),
        "changed": _record_json(check.changed),
        "after": _record_json(check.after),
    }


def _record_json(record: ConnectRecord | None) -> dict[str, Any] | None:
    if record is None:
        return None
    try:
        return record_to_json(record)
    except DataError:
        return {"topic": record.topic, "text": repr(record.value)[:_MAX_SHOWN_BYTES]}


def record_to_write(letter: DeadLetter, check: LetterCheck | None, to: str | None) -> RecordToWrite:
    """Returns the record that a replay writes: the bytes of a sink's record as they were, or a source's record as its connector
    would write it. Raises ConnectError if its topic is unknown."""
    stored = letter.stored
    if check is not None and check.written is not None:
        written = check.written
        at_ms = None if check.after is None else check.after.timestamp
        return RecordToWrite(to or written.topic, check.partition, at_ms, written.key, written.value, written.headers)
    origin = letter.origin
    if origin is None and to is None:
        raise ConfigError(
            f"The dead letter at offset {stored.offset} of {stored.topic}-{stored.partition} does not name its original topic; "
            "name one with --to"
        )
    topic, partition = (to or "", None) if origin is None else (to or origin[0], origin[1])
    return RecordToWrite(topic, partition, stored.timestamp_ms, stored.key, stored.value, letter.original_headers)
