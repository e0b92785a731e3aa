"""Replays dead letters: checks them, and writes those that pass back in the order of the queue."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from typing import Any

from connect import crash_points
from connect.errors import BadRequestError, ConnectError
from worker.dead_letters.checks import LetterCheck, LetterChecks, Verdict, check_json, record_to_write
from worker.dead_letters.letters import DeadLetter, LetterSelection, is_source_queue
from worker.dead_letters.positions import ReplayPosition, replay_group
from worker.dead_letters.reader import LetterReader, Positions, Ranges
from worker.dead_letters.requests import ReplayRequest
from worker.dead_letters.superseded import NewerRecords, mark_replayed
from worker.dead_letters.transforms import ChangedLetter, LetterTransforms
from worker.kafka.dead_letter_topic import CommittedPosition, RecordToWrite, ReplayProducer
from worker.kafka.stored_records import topic_ranges

_BATCH_RECORDS, _BATCH_BYTES = 500, 1_000_000
_MAX_SHOWN = 100


def replay(reader: LetterReader, request: ReplayRequest) -> dict[str, Any]:
    """Checks the selected dead letters, and writes back those that pass; with ``dry_run``, only checks them.

    Each batch is one transaction of records and position: a replay that is killed continues without duplicates, for readers that
    read committed records. The result is incomplete if the time or ``limit`` is over before the end: repeat it with ``next``.
    """
    source = reader.source
    if not request.is_checked and is_source_queue(source.config):
        raise BadRequestError("Dead letters of a source cannot be replayed without a check: it creates the records to write")
    own = source.config, source.worker, source.plugins, source.mask
    with ExitStack() as stack:
        transforms = checks = producer = None
        if request.transforms is not None:
            transforms = stack.enter_context(closing(LetterTransforms(request.transforms, *own)))
        if request.is_checked:
            checks = stack.enter_context(closing(LetterChecks(*own)))
        if not request.dry_run:
            producer = stack.enter_context(closing(_make_producer(reader)))
        return _Replay(reader, request, transforms, checks, producer).run()


def _make_producer(reader: LetterReader) -> ReplayProducer:
    source = reader.source
    if source.consumer["bootstrap.servers"] != source.producer["bootstrap.servers"]:
        raise ConnectError(
            f"The consumers and producers of connector {source.connector} use different clusters, so its dead letters cannot be "
            "replayed exactly once"
        )
    producer = ReplayProducer(source.producer, source.consumer, replay_group(source.connector))
    try:
        producer.begin()
    except BaseException:
        producer.close()
        raise
    return producer


@dataclass(slots=True)
class _Batch:
    """Dead letters whose positions are stored together, and the records to write."""

    letters: list[DeadLetter] = field(default_factory=list)
    records: list[RecordToWrite] = field(default_factory=list)
    size_bytes: int = 0

    def add(self, letter: DeadLetter, record: RecordToWrite | None) -> None:
        self.letters.append(letter)
        if record is not None:
            self.records.append(record)
            self.size_bytes += len(record.key or b"") + len(record.value or b"")

    @property
    def is_full(self) -> bool:
        return len(self.letters) >= _BATCH_RECORDS or self.size_bytes >= _BATCH_BYTES


@dataclass(slots=True)
class _Replay:
    """One request."""

    reader: LetterReader
    request: ReplayRequest
    transforms: LetterTransforms | None
    checks: LetterChecks | None
    producer: ReplayProducer | None
    checked: int = 0
    replayed: int = 0
    verdicts: dict[str, int] = field(default_factory=dict)
    shown: list[dict[str, Any]] = field(default_factory=list)
    partition_counts: dict[str, int] = field(default_factory=dict)

    def run(self) -> dict[str, Any]:
        ranges = self.reader.ranges()
        # After the producer has ended the transaction of an earlier replay: only now positions are final.
        positions = self._positions(ranges)
        newer = self._newer(ranges)
        following: dict[int, int] = {}
        is_complete = True
        for number, (low, high) in ranges.items():
            position = positions.setdefault(number, ReplayPosition(low))
            position.add(position.base, low - 1)  # retention has deleted these
            first = max(low, self.request.start.get(number, low))
            following[number] = self._run_partition(number, first, high, positions, newer) if is_complete else first
            is_complete = is_complete and following[number] >= high
        return {
            "connector": self.reader.source.connector,
            "topic": self.reader.topic,
            "dry_run": self.request.dry_run,
            "checked": self.checked,
            "replayed": self.replayed,
            "verdicts": self.verdicts,
            "complete": is_complete,
            "next": {str(number): offset for number, offset in following.items()},
            "letters": self.shown,
        }

    def _positions(self, ranges: Ranges) -> dict[int, ReplayPosition]:
        if self.producer is None:
            return self.reader.positions(ranges)
        found = self.producer.positions(self.reader.topic, list(ranges))
        return {number: ReplayPosition.decode(*one) for number, one in found.items()}

    def _newer(self, ranges: Ranges) -> NewerRecords | None:
        if self.request.include_superseded or self.request.to is not None:
            return None
        newer = NewerRecords()
        # All letters, not only the selected ones: their records are in the same topics.
        everything = LetterSelection(with_replayed=True)
        for number, (low, high) in ranges.items():
            for chunk in self.reader.read(number, low, high, everything, {}):
                newer.add(chunk.letters)
        reader = self.reader
        newer.read(
            reader.source.consumer,
            lambda: reader.is_over,
            lambda done, total: reader.on_progress(done, total, "looking for newer records of the same keys"),
        )
        return newer

    def _run_partition(self, number: int, first: int, end: int, positions: Positions, newer: NewerRecords | None) -> int:
        """Replays one partition of the queue; returns the offset at which to continue."""
        position, batch = positions[number], _Batch()
        for chunk in self.reader.read(number, first, end, self.request.selection, positions):
            for gap in chunk.empty:
                position.add(*gap)  # keeps the position a single number where possible
            for letter in chunk.letters:
                if self.checked >= self.request.limit or self.reader.is_over:
                    self._write(batch, number, position)
                    return letter.stored.offset
                self._take(letter, newer, batch)
                if batch.is_full:
                    self._write(batch, number, position)
                    batch = _Batch()
            if self.reader.is_over:
                self._write(batch, number, position)
                return chunk.end
        self._write(batch, number, position)
        return end

    def _take(self, letter: DeadLetter, newer: NewerRecords | None, batch: _Batch) -> None:
        """Checks a dead letter, and adds it to the batch if it is to be replayed."""
        self.checked += 1
        changed = None if self.transforms is None else self.transforms.apply(letter)
        check = self._check(letter, changed, newer)
        self._count(letter, check)
        match check and check.verdict:
            case Verdict.FAILS | Verdict.SUPERSEDED | Verdict.WITHHELD:
                return  # it stays in the queue as it is
            case Verdict.DROPPED:
                batch.add(letter, None)  # the connector would drop it again
            case _:
                replayed = letter if changed is None or changed.letter is None else changed.letter
                record = mark_replayed(record_to_write(replayed, check, self.request.to), letter)
                self._require_partition(record)
                batch.add(letter, record)

    def _check(self, letter: DeadLetter, changed: ChangedLetter | None, newer: NewerRecords | None) -> LetterCheck | None:
        if changed is not None and changed.letter is None:
            return LetterCheck(Verdict.WITHHELD, changed.failure, changed.before, dropped_by=changed.dropped_by)
        check = None if changed is None else LetterCheck(Verdict.UNCHECKED, before=changed.before, changed=changed.after)
        if self.checks is not None:
            check = self.checks.check(letter if changed is None or changed.letter is None else changed.letter)
            if changed is not None:
                check = replace(check, before=changed.before, changed=check.before or changed.after)
        if newer is not None and newer.supersedes(letter) and (check is None or check.verdict is not Verdict.FAILS):
            check = LetterCheck(Verdict.SUPERSEDED, None, None if check is None else check.before)
        return check

    def _count(self, letter: DeadLetter, check: LetterCheck | None) -> None:
        verdict = Verdict.UNCHECKED if check is None else check.verdict
        self.verdicts[verdict.value] = self.verdicts.get(verdict.value, 0) + 1
        is_shown = self.request.dry_run or verdict in (Verdict.FAILS, Verdict.SUPERSEDED, Verdict.WITHHELD)
        if check is not None and is_shown and len(self.shown) < _MAX_SHOWN:
            self.shown.append(check_json(letter, check))

    def _require_partition(self, record: RecordToWrite) -> None:
        """Raises ConnectError if the record's topic does not have its partition."""
        counts = self.partition_counts
        if record.topic not in counts:
            counts[record.topic] = len(topic_ranges(self.reader.source.consumer, [record.topic]))
        if record.partition is not None and record.partition >= counts[record.topic]:
            raise ConnectError(
                f"Topic {record.topic} has no partition {record.partition}, which a dead letter came from; it has "
                f"{counts[record.topic]}. If it was recreated, replay into another topic"
            )

    def _write(self, batch: _Batch, partition: int, position: ReplayPosition) -> None:
        if not batch.letters or self.producer is None:
            return
        for letter in batch.letters:
            position.add(letter.stored.offset, letter.stored.offset)
        stored = {partition: CommittedPosition(position.base, position.encode())}
        self.producer.write(batch.records, self.reader.topic, stored)
        crash_points.point("dead_letters.replayed")
        self.replayed += len(batch.records)
