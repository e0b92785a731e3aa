"""Reads offset ranges of a sink task in another process, such as an executor of Spark (:class:`connect.sink.RangeReader`)."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from connect.converters.api import Converter, HeaderConverter
from connect.errors import ConnectError, DataError, RetriableError
from connect.plugins import Plugins
from connect.record import SinkRecord, TopicPartition
from connect.sink import FailedRead, OffsetRange, RangeBatch, RawRecord
from connect.transforms.chain import build_steps
from worker.errors.config import error_settings
from worker.errors.handler import ErrorHandler
from worker.errors.stages import StageError
from worker.kafka.range_consumer import read_range
from worker.model import TaskId
from worker.sink.decoding import build_raw_batch, decode, to_consumed_record
from worker.tasks.converters import Converters
from worker.tasks.transformation_chain import TransformationChain

_MAX_MESSAGES = 2000

PluginSettings = tuple[str, Mapping[str, str]]
"""Class and settings of a converter."""


def plugin_path(plugin: object) -> str:
    """``module:Class`` of a plugin."""
    return f"{type(plugin).__module__}:{type(plugin).__qualname__}"


@dataclass(frozen=True, slots=True)
class KafkaRangeReader:
    """Plain data: classes and settings, from which each process creates its consumer, converters, and transformations."""

    task: TaskId
    consumer: Mapping[str, str] = field(repr=False)
    """Settings in Java's names."""
    key: PluginSettings = field(repr=False)
    value: PluginSettings = field(repr=False)
    header: PluginSettings = field(repr=False)
    connector: Mapping[str, str] = field(repr=False)
    """The connector's configuration, with its transformations and ``errors.*``."""
    raw: bool = False
    """Whether records stay undecoded."""

    def converters(self) -> tuple[Converter, Converter]:
        found = self._converters()
        return found.key, found.value

    def _converters(self) -> Converters:
        plugins = Plugins.discover()
        key, value = plugins.new_converter(self.key[0]), plugins.new_converter(self.value[0])
        key.configure(dict(self.key[1]), True)
        value.configure(dict(self.value[1]), False)
        header: HeaderConverter = plugins.new_header_converter(self.header[0])
        header.configure(dict(self.header[1]))
        return Converters(key, value, header)

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        decoder = None if self.raw else KafkaRangeDecoder(self)
        try:
            end = offset_range.first
            for messages in read_range(self.consumer, offset_range, _MAX_MESSAGES):
                end = (messages[-1].offset() or 0) + 1
                raw = build_raw_batch(offset_range.partition, messages)
                if decoder is None:
                    yield RangeBatch(raw, None, (), end)
                    continue
                records, failures, is_over = decoder.decode(offset_range.partition, messages)
                yield RangeBatch(raw, records, failures, end)
                if is_over:
                    return
            if end < offset_range.end:
                nothing = build_raw_batch(offset_range.partition, ())
                yield RangeBatch(nothing, None if decoder is None else (), (), offset_range.end)
        finally:
            if decoder is not None:
                decoder.close()


class KafkaRangeDecoder:
    """Converts and transforms the messages of one range, as a sink task's loop does."""

    def __init__(self, reader: KafkaRangeReader) -> None:
        self._converters = reader._converters()
        self._chain = TransformationChain(build_steps(reader.connector, Plugins.discover()))
        self._errors = ErrorHandler(reader.task, error_settings(reader.connector, "sink"))
        self._errors.open(threading.Event().wait)  # the clock of retries

    def decode(self, partition: TopicPartition, messages: Sequence[Message]) -> tuple[list[SinkRecord], list[FailedRead], bool]:
        """The records and failures of messages, and whether a failure that is not tolerated ends the range."""
        failures = self._errors.start_batch()
        found = decode(self._converters, partition, messages, failures)
        if self._chain:
            found = self._chain.apply_batch(found, failures)  # type: ignore[assignment]
        records = [record for record in found if isinstance(record, SinkRecord)]
        return records, [_failed_read(failure, messages[at]) for at, failure in failures], not failures.are_tolerated

    def close(self) -> None:
        self._chain.close()
        self._converters.close()


def _failed_read(failure: StageError, message: Message) -> FailedRead:
    record = to_consumed_record(message)
    original = RawRecord(
        record.topic,
        record.partition,
        record.offset,
        record.key,
        record.value,
        record.timestamp,
        record.headers,
        record.timestamp_type,
    )
    reason = failure.reason
    return FailedRead(original, failure.stage.value, plugin_path(failure.plugin), failure.alias, _plain_error(reason))


def _plain_error(error: BaseException) -> Exception:
    """The error itself if it can be pickled, else one with its class in the text."""
    try:
        again = pickle.loads(pickle.dumps(error))
    except Exception:
        again = None
    if isinstance(again, Exception) and str(again) == str(error):
        return again
    kind = RetriableError if isinstance(error, RetriableError) else DataError if isinstance(error, DataError) else ConnectError
    return kind(f"{type(error).__name__}: {error}")
