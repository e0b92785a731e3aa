"""Decodes batches that contain bad records: returns the good ones and identifies the bad ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from connect.errors import DataError
from connect.record import SinkRecord, TopicPartition
from connectors.sink_support.batch_isolation import find_bad_records, halves
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import DECODE_ERRORS, TopicDecoder

_MAX_SLOW_BATCH = 16
"""Maximum number of records to decode together on the slow path during bisection."""


def decode_raw_tolerantly(decoder: TopicDecoder, raw: RawBuffer, sequence: int) -> tuple[list[ChangeBatch], list[BadRecord]]:
    """Like :meth:`TopicDecoder.decode_raw`, without bad records; also returns the bad records with their errors, in order."""
    bad_records: list[BadRecord] = []
    while len(raw):
        inferred_state = decoder.inferred_state()
        try:
            return decoder.decode_raw(raw, sequence), bad_records
        except DataError:
            decoder.restore_inferred(inferred_state)
            with contextlib.suppress(DataError):  # no value can be read
                decoder.detect_envelopes(raw.values)
            found = _find_bad(decoder, len(raw), _attempt_raw(decoder, raw), raw.location)
            if not found and decoder.inferred_state() == inferred_state:
                raise  # otherwise, the types of later values tell which record is bad
            bad_records += found.values()
            raw = raw.without_positions(found)
    return [], bad_records


def _attempt_raw(decoder: TopicDecoder, raw: RawBuffer) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        some = raw.slice(part)
        try:
            decoder.decode_batch(some, 0)
        except (NotBatchable, *DECODE_ERRORS) as e:
            # The slow path decides because it supports more forms; it is used only for records that need it.
            if len(part) == 1 or (isinstance(e, NotBatchable) and len(part) <= _MAX_SLOW_BATCH):
                decoder.decode_exactly(some, 0)
            else:
                raise DataError(str(e)) from e

    return attempt


@dataclass(frozen=True, slots=True)
class DecodedTopic:
    """What the records of a topic became, or of one name that a transformation gave some of them."""

    topic: str
    changes: Sequence[ChangeBatch]
    bad_records: Sequence[BadRecord] = ()


def decode_renamed(
    decoder_of: Callable[[str, str], TopicDecoder], records: Sequence[SinkRecord], sequence: int
) -> list[DecodedTopic]:
    """Decodes records of any converter, which transformations may have renamed, without bad records. ``decoder_of`` gets the
    original and the new name.

    The offsets of the names overlap in one partition, so none of them may be committed without the others.
    """
    by_name: dict[tuple[str, str], list[int]] = {}
    for at, record in enumerate(records):
        # The new name names the table, but offsets belong to the original topic.
        by_name.setdefault((record.original_topic, record.topic), []).append(at)
    found = []
    for names, places in by_name.items():
        chosen = [records[at] for at in places]
        numbers = [sequence + at for at in places]  # so that the order of arrival is kept
        found.append(DecodedTopic(names[1], *_decode_records_tolerantly(decoder_of(*names), chosen, numbers)))
    return found


def _decode_records_tolerantly(
    decoder: TopicDecoder, records: Sequence[SinkRecord], sequences: Sequence[int]
) -> tuple[list[ChangeBatch], list[BadRecord]]:
    bad_records: list[BadRecord] = []
    while records:
        inferred_state = decoder.inferred_state()
        try:
            return decoder.decode_records(records, sequences), bad_records
        except DataError:
            decoder.restore_inferred(inferred_state)
            found = _find_bad(decoder, len(records), _attempt_records(decoder, records), _location_in(records))
            if not found and decoder.inferred_state() == inferred_state:
                raise  # otherwise, the types of later values tell which record is bad
            bad_records += found.values()
            kept = [at for at in range(len(records)) if at not in found]
            records, sequences = [records[at] for at in kept], [sequences[at] for at in kept]
    return [], bad_records


def _attempt_records(decoder: TopicDecoder, records: Sequence[SinkRecord]) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        decoder.decode_records(records[part.start : part.stop])

    return attempt


def _location_in(records: Sequence[SinkRecord]) -> Callable[[int], tuple[TopicPartition, int]]:
    def location(index: int) -> tuple[TopicPartition, int]:
        record = records[index]
        return TopicPartition(record.original_topic, record.original_partition), record.offset

    return location


def _find_bad(
    decoder: TopicDecoder,
    count: int,
    attempt: Callable[[range], None],
    location: Callable[[int], tuple[TopicPartition, int]],
) -> dict[int, BadRecord]:
    def attempt_and_restore(part: range) -> None:
        inferred_state = decoder.inferred_state()
        try:
            attempt(part)
        except DataError:
            decoder.restore_inferred(inferred_state)
            raise

    found = find_bad_records(halves(range(count)), attempt_and_restore)
    return {at: BadRecord.of(*location(at), error) for at, error in found.items()}
