"""Decodes the headers of sink records: most sinks never look at them."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import Message

from connect.converters.api import HeaderConverter
from connect.data.headers import Header, Headers
from connect.errors import DataError
from connect.record import SinkRecord
from worker.errors.batch_failures import BatchFailures
from worker.errors.stages import RecordStage, StageError, run_stage

_RawHeaders = Sequence[tuple[str, bytes | None]]


class UnreadHeaders(Headers):
    """Headers that are converted when somebody looks at them."""

    __slots__ = ("_converter", "_raw", "_topic")

    def __init__(self, converter: HeaderConverter, topic: str, raw: _RawHeaders) -> None:
        # Without super().__init__(): as long as _items is not set, __getattr__ is called for it.
        self._converter = converter
        self._topic = topic
        self._raw = raw

    def __getattr__(self, name: str) -> list[Header]:
        if name != "_items":
            raise AttributeError(name)
        convert, topic = self._converter.to_connect_header, self._topic
        self._items = [Header(name, *convert(topic, name, data)) for name, data in self._raw]
        return self._items

    def copy(self) -> Headers:
        try:
            return Headers(object.__getattribute__(self, "_items"))
        except AttributeError:
            return UnreadHeaders(self._converter, self._topic, self._raw)


def decode_headers(
    converter: HeaderConverter, records: Sequence[SinkRecord], messages: Sequence[Message], failures: BatchFailures
) -> None:
    """Sets the headers of records, which have been made from these messages. One whose headers fail is added to ``failures``."""
    may_wait = converter.reads_any_bytes
    for i, (record, message) in enumerate(zip(records, messages, strict=True)):
        if (raw := message.headers()) and failures.is_good(i):
            if may_wait:
                record.headers = UnreadHeaders(converter, record.topic, raw)
                continue
            try:
                record.headers = _convert(converter, record, raw, failures)
            except StageError as e:
                failures.add(i, e)


def _convert(converter: HeaderConverter, record: SinkRecord, raw: _RawHeaders, failures: BatchFailures) -> Headers:
    def convert() -> Headers:
        headers = Headers()
        for name, data in raw:
            try:
                schema, value = converter.to_connect_header(record.topic, name, data)
            except DataError as e:
                e.in_field(name)
                raise
            headers.add(name, value, schema)
        return headers

    def location() -> str:
        return f"topic {record.topic}, partition {record.partition}, offset {record.offset}"

    return run_stage(RecordStage.HEADER_CONVERTER, converter, location, failures.attempt, convert)
