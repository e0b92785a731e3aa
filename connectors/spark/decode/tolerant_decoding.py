"""Decodes batches that contain bad records: returns the good ones and identifies the bad ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

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


def decode_records_tolerantly(
    decoder: TopicDecoder, records: Sequence[SinkRecord], sequence: int
) -> tuple[list[ChangeBatch], list[BadRecord]]:
    """Like :func:`decode_raw_tolerantly`, for :meth:`TopicDecoder.decode_records`."""
    bad_records: list[BadRecord] = []
    while records:
        inferred_state = decoder.inferred_state()
        try:
            return decoder.decode_records(records, sequence), bad_records
        except DataError:
            decoder.restore_inferred(inferred_state)
            found = _find_bad(decoder, len(records), _attempt_records(decoder, records), _location_in(records))
            if not found and decoder.inferred_state() == inferred_state:
                raise  # otherwise, the types of later values tell which record is bad
            bad_records += found.values()
            records = [record for at, record in enumerate(records) if at not in found]
    return [], bad_records


def _attempt_records(decoder: TopicDecoder, records: Sequence[SinkRecord]) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        decoder.decode_records(records[part.start : part.stop], 0)

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
