"""Decodes batches that contain bad records: returns the good ones and identifies the bad ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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
    decoder.detect_envelopes(raw.values)
    while len(raw):
        inferred_state = decoder.inferred_state()
        try:
            return decoder.decode_raw(raw, sequence), sorted(bad_records, key=_place)
        except DataError:
            decoder.restore_inferred(inferred_state)
            found = _find_bad(decoder, len(raw), _attempt_raw(decoder, raw), raw.location)
            if not found and decoder.inferred_state() == inferred_state:
                raise  # otherwise, the types of later values tell which record is bad
            bad_records += found.values()
            raw = raw.without_positions(found)
    return [], sorted(bad_records, key=_place)


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
    decoder.detect_envelopes_in(records)
    while records:
        inferred_state = decoder.inferred_state()
        try:
            return decoder.decode_records(records, sequences), sorted(bad_records, key=_place)
        except DataError:
            decoder.restore_inferred(inferred_state)
            found = _find_bad(decoder, len(records), _attempt_records(decoder, records), _location_in(records))
            if not found and decoder.inferred_state() == inferred_state:
                raise  # otherwise, the types of later values tell which record is bad
            bad_records += found.values()
            kept = [at for at in range(len(records)) if at not in found]
            records, sequences = [records[at] for at in kept], [sequences[at] for at in kept]
    return [], sorted(bad_records, key=_place)


def _attempt_records(decoder: TopicDecoder, records: Sequence[SinkRecord]) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        decoder.decode_records(records[part.start : part.stop])

    return attempt


def _location_in(records: Sequence[SinkRecord]) -> Callable[[int], tuple[TopicPartition, int]]:
    def location(index: int) -> tuple[TopicPartition, int]:
        record = records[index]
        return TopicPartition(record.original_topic, record.original_partition), record.offset

    return location


def _place(bad: BadRecord) -> tuple[TopicPartition, int]:
    return bad.topic_partition, bad.offset


def _find_bad(
    decoder: TopicDecoder,
    count: int,
    attempt: Callable[[range], None],
    location: Callable[[int], tuple[TopicPartition, int]],
) -> dict[int, BadRecord]:
    """The records that no inferred types make good; if there are none, those that do not fit the types of most others.

    If there are any, no types are inferred: those of all the other records may be wider than those of some of them.
    """
    before = decoder.inferred_state()
    unreadable: dict[int, object] = {}
    """The records that cannot be decoded alone, by position, and the inferred types with which they cannot either."""

    def is_decoded(part: range) -> bool:
        try:
            attempt(part)
        except DataError:
            return False
        return True

    def fits_wider_types(record: range, learned: object) -> bool:
        """Whether the record fits types that are also those of all that was decoded so far, which are known then."""
        decoder.restore_inferred(before)
        if not is_decoded(record):
            unreadable[record.start] = learned
            return False
        try:
            decoder.restore_inferred(_join(learned, decoder.inferred_state()))
        except pa.ArrowException:
            return False
        return is_decoded(record)

    def attempt_and_learn(part: range) -> None:
        learned = decoder.inferred_state()
        try:
            attempt(part)
        except DataError:
            if len(part) == 1 and fits_wider_types(part, learned):
                return
            decoder.restore_inferred(learned)
            raise

    found = find_bad_records(halves(range(count)), attempt_and_learn)
    learned = decoder.inferred_state()
    for at, known in list(unreadable.items()):
        # A record without values needs a column that others have.
        decoder.restore_inferred(learned)
        if known != learned and is_decoded(range(at, at + 1)):
            del unreadable[at], found[at]
    decoder.restore_inferred(before if found else learned)
    return {at: BadRecord.of(*location(at), found[at]) for at in sorted(unreadable) or found}


def _join(state: Any, other: Any) -> Any:
    """The inferred types of both states of a decoder, wide enough for each. Raises an Arrow error if there are none."""
    if isinstance(state, tuple):
        return tuple(map(_join, state, other))
    if not isinstance(state, pa.DataType):
        return other if state is None else state
    return pa.struct(list(pa.unify_schemas([pa.schema(list(state)), pa.schema(list(other))], promote_options="permissive")))
