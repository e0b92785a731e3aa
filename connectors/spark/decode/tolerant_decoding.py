"""Batches in which some records cannot be decoded: the others, and which those are."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from connect.errors import DataError
from connect.record import SinkRecord, TopicPartition
from connectors.sink_support.batch_isolation import find_bad_records, halves
from connectors.sink_support.errant_records import BadRecord
from connectors.spark.decode.change_batch import Changes
from connectors.spark.decode.json import NotBatchable
from connectors.spark.decode.raw_buffer import Raw
from connectors.spark.decode.topic_decoder import UNFIT, TopicDecoder

_FEW = 16
"""Records that go by the slow path together when a batch is taken apart."""


def decode_good_raw(decoder: TopicDecoder, raw: Raw, sequence: int) -> tuple[list[Changes], list[BadRecord]]:
    """As :meth:`TopicDecoder.decode_raw`, without the records that cannot be decoded, and those with their reasons, in order."""
    refused: list[BadRecord] = []
    while len(raw):
        learnt = decoder.learnt()
        try:
            return decoder.decode_raw(raw, sequence), refused
        except DataError:
            decoder.forget_since(learnt)
            with contextlib.suppress(DataError):  # none of them can be read
                decoder.settle_form(raw.values)
            found = _find(decoder, len(raw), _attempt_raw(decoder, raw), raw.place)
            if not found:
                raise
            refused += found.values()
            raw = raw.without(found)
    return [], refused


def _attempt_raw(decoder: TopicDecoder, raw: Raw) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        some = raw.slice(part)
        try:
            decoder.decode_batch(some, 0)
        except (NotBatchable, *UNFIT) as e:
            # The last word is the other path's, which knows more forms; it is slow, and worth it for what only it can read.
            if len(part) == 1 or (isinstance(e, NotBatchable) and len(part) <= _FEW):
                decoder.decode_records(decoder.records(some), 0)
            else:
                raise DataError(str(e)) from e

    return attempt


def decode_good_records(
    decoder: TopicDecoder, records: Sequence[SinkRecord], sequence: int
) -> tuple[list[Changes], list[BadRecord]]:
    """The same for :meth:`TopicDecoder.decode_records`."""
    refused: list[BadRecord] = []
    while records:
        learnt = decoder.learnt()
        try:
            return decoder.decode_records(records, sequence), refused
        except DataError:
            decoder.forget_since(learnt)
            found = _find(decoder, len(records), _attempt_records(decoder, records), _place_in(records))
            if not found:
                raise
            refused += found.values()
            records = [record for at, record in enumerate(records) if at not in found]
    return [], refused


def _attempt_records(decoder: TopicDecoder, records: Sequence[SinkRecord]) -> Callable[[range], None]:
    def attempt(part: range) -> None:
        decoder.decode_records(records[part.start : part.stop], 0)

    return attempt


def _place_in(records: Sequence[SinkRecord]) -> Callable[[int], tuple[TopicPartition, int]]:
    def place(index: int) -> tuple[TopicPartition, int]:
        record = records[index]
        return TopicPartition(record.original_topic, record.original_partition), record.offset

    return place


def _find(
    decoder: TopicDecoder,
    count: int,
    attempt: Callable[[range], None],
    place: Callable[[int], tuple[TopicPartition, int]],
) -> dict[int, BadRecord]:
    def learning_from_good_ones(part: range) -> None:
        learnt = decoder.learnt()
        try:
            attempt(part)
        except DataError:
            decoder.forget_since(learnt)
            raise

    found = find_bad_records(halves(range(count)), learning_from_good_ones)
    return {at: BadRecord.of(*place(at), error) for at, error in found.items()}
