"""A range reader over lists, with the converters and transformations of a worker."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from connect.converters.api import Converter
from connect.errors import ConnectError
from connect.record import CREATE_TIME, RawBatch
from connect.sink import OffsetRange, RangeBatch
from worker.model import TaskId
from worker.sink.range_reader import KafkaRangeDecoder, KafkaRangeReader

_JSON = "org.apache.kafka.connect.json.JsonConverter", {"schemas.enable": "true", "conversion.strict": "true"}
_HEADERS = "org.apache.kafka.connect.storage.SimpleHeaderConverter", dict[str, str]()
FIRST_MS = 1_700_000_000_000
GAP = (b"gap", b"gap")
"""An offset without a record, such as that of a transaction marker."""
Log = Sequence[tuple[bytes | None, bytes | None]]


@dataclass(frozen=True)
class ListTransformingReader:
    """Reads lists like the worker reads Kafka, in any process. The timestamp of a record is FIRST_MS plus its offset, in days."""

    kafka: KafkaRangeReader
    logs: Mapping[str, Mapping[int, Log]]
    headers: Mapping[tuple[int, int], list[tuple[str, bytes | None]]] = field(default_factory=dict)
    """By partition and offset."""
    raw: bool = False
    batch: int = 50
    fails_at: int | None = None
    """The offset at which reading fails."""
    dies_at: int | None = None
    """The offset at which the process dies, until there is the file ``marker``."""
    marker: str = ""

    def converters(self) -> tuple[Converter, Converter]:
        return self.kafka.converters()

    def undecoded(self) -> ListTransformingReader:
        return replace(self, raw=True)

    def decoder(self) -> KafkaRangeDecoder:
        return self.kafka.decoder()

    def chain_config(self) -> Mapping[str, str]:
        return self.kafka.chain_config()

    def read(self, offset_range: OffsetRange) -> Iterator[RangeBatch]:
        decoder = None if self.raw else self.decoder()
        for start in range(offset_range.first, offset_range.end, self.batch):
            end = min(offset_range.end, start + self.batch)
            raw = self.raw_batch(*offset_range.partition, start, end)
            if self.fails_at is not None and start <= self.fails_at < end:
                raise ConnectError("the broker is gone")
            if self.dies_at is not None and start <= self.dies_at < end and not os.path.exists(self.marker):
                Path(self.marker).touch()
                os._exit(1)
            if decoder is None or not len(raw):
                yield RangeBatch(raw, None if self.raw else (), (), end)
                continue
            found = decoder.decode(raw)
            yield replace(found, end=end)
            if found.ends_range:
                return

    def raw_batch(self, topic: str, partition: int, start: int, end: int) -> RawBatch:
        """The records from one offset to below another."""
        log = self.logs[topic][partition]
        offsets = [offset for offset in range(start, end) if log[offset] != GAP]
        listed = [self.headers.get((partition, offset)) for offset in offsets]
        times = [FIRST_MS + 86_400_000 * (offset % 3) for offset in offsets]
        return RawBatch(
            topic,
            partition,
            offsets,
            [log[offset][0] for offset in offsets],
            [log[offset][1] for offset in offsets],
            times,
            listed if any(listed) else None,
            [CREATE_TIME] * len(offsets),
        )


def list_reader(
    settings: Mapping[str, str],
    logs: Mapping[str, Mapping[int, Log]],
    headers: Mapping[tuple[int, int], list[tuple[str, bytes | None]]] | None = None,
) -> ListTransformingReader:
    """A reader with JsonConverters, and the transformations and ``errors.*`` of ``settings``."""
    kafka = KafkaRangeReader(TaskId("lake", 0), {}, _JSON, _JSON, _HEADERS, dict(settings))
    return ListTransformingReader(kafka, logs, headers or {})
