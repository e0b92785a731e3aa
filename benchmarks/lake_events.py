"""Change events of 400 bytes as Debezium's PostgreSQL connector writes them, for the benchmarks of the lake.

Each event has a number, which is also the column ``seq`` of its row: a table whose highest number is n has every event up to n,
because a topic's only partition is read in order.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from confluent_kafka import Producer

COLUMNS = {
    "id": "int64",
    "seq": "int64",
    "first_name": "string",
    "last_name": "string",
    "email": "string",
    "balance": "string",
    "score": "double",
    "active": "boolean",
    "notes": "string",
}
"""Columns and types of a row, as in a schema in JSON."""

_ROW = (
    b'{"id":%d,"seq":%d,"first_name":"first%d","last_name":"last%d","email":"user%d@example.com","balance":"%d.%02d",'
    b'"score":%.4f,"active":%b,"notes":"%b"}'
)
_KEY_ROW = (
    b'{"id":%d,"seq":null,"first_name":null,"last_name":null,"email":null,"balance":null,"score":null,"active":null,"notes":null}'
)
_EVENT = (
    b'{"before":%b,"after":%b,"source":{"connector":"postgresql","ts_ms":%d,"db":"shop","schema":"public","table":"t","lsn":%d},'
    b'"op":"%b","ts_ms":%d}'
)
_BOOLEANS = (b"false", b"true")
_NOTES = b"x" * 66


@dataclass(frozen=True, slots=True)
class Message:
    """Key and value of a record."""

    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class EventFormat:
    """JSON with or without schemas in every record."""

    schemas: bool = False

    def event(self, op: bytes, key: int, seq: int, ts_ms: int) -> Message:
        """An event of the operation ``c``, ``r``, ``u``, or ``d``."""
        if op == b"d":
            before, after = _KEY_ROW % key, b"null"
        else:
            cents = seq % 1_000_000
            row = (key, seq, key, key, key, cents // 100, cents % 100, seq % 5000 / 7, _BOOLEANS[seq % 2], _NOTES)
            before, after = b"null", _ROW % row
        value = _EVENT % (before, after, ts_ms, seq, op, ts_ms)
        if self.schemas:
            return Message(_KEY_PREFIX + b'{"id":%d}}' % key, _VALUE_PREFIX + value + b"}")
        return Message(b'{"id":%d}' % key, value)

    @property
    def converter(self) -> dict[str, str]:
        """The worker's settings for the converter."""
        flag = str(self.schemas).lower()
        json_converter = "org.apache.kafka.connect.json.JsonConverter"
        return {
            f"{part}.converter{setting}": value
            for part in ("key", "value")
            for setting, value in (("", json_converter), (".schemas.enable", flag))
        }


def _schema_prefixes() -> tuple[bytes, bytes]:
    def struct(name: str, fields: list[dict[str, object]], **more: object) -> dict[str, object]:
        return {"type": "struct", "fields": fields, "optional": False, "name": name, **more}

    row = [{"type": kind, "optional": name != "id", "field": name} for name, kind in COLUMNS.items()]
    source = [{"type": "int64", "optional": False, "field": "ts_ms"}, {"type": "int64", "optional": True, "field": "lsn"}]
    source += [{"type": "string", "optional": False, "field": name} for name in ("connector", "db", "schema", "table")]
    envelope = struct(
        "shop.public.t.Envelope",
        [
            struct("shop.public.t.Value", row, optional=True, field="before"),
            struct("shop.public.t.Value", row, optional=True, field="after"),
            struct("io.debezium.connector.postgresql.Source", source, field="source"),
            {"type": "string", "optional": False, "field": "op"},
            {"type": "int64", "optional": True, "field": "ts_ms"},
        ],
        version=2,
    )
    key = struct("shop.public.t.Key", [{"type": "int64", "optional": False, "field": "id"}])
    prefixes = [b'{"schema":' + json.dumps(s, separators=(",", ":")).encode() + b',"payload":' for s in (key, envelope)]
    return prefixes[0], prefixes[1]


_KEY_PREFIX, _VALUE_PREFIX = _schema_prefixes()


def inserts(form: EventFormat, count: int, op: bytes = b"c") -> Iterator[Message]:
    """Events 1 to ``count``, each of a row of its own: keys 1 to ``count``."""
    start_ms = int(time.time() * 1000)
    return (form.event(op, i, i, start_ms) for i in range(1, count + 1))


class RandomChanges:
    """Random changes to a table with the keys 1 to ``rows``: 70 % updates, 20 % inserts, 10 % deletes.

    ``rows`` is also the number of the last event before.
    """

    def __init__(self, form: EventFormat, rows: int, seed: int = 7) -> None:
        self._form = form
        self._random = random.Random(seed)
        self._rows = self._next_key = rows
        self.last = rows
        """The number of the last event so far."""

    def take(self, count: int, ts_ms: int | None = None, *, ends_in_update: bool = True) -> list[Message]:
        """The next changes. The last is an update, so that its number shows in the table, unless ``ends_in_update`` is false."""
        now = int(time.time() * 1000) if ts_ms is None else ts_ms
        return [self._next(now, ends_in_update and i == count - 1) for i in range(count)]

    def _next(self, ts_ms: int, is_last: bool) -> Message:
        pick = 0.0 if is_last else self._random.random()
        self.last += 1
        if pick < 0.7:
            return self._form.event(b"u", self._random.randint(1, self._rows), self.last, ts_ms)
        if pick < 0.9:
            self._next_key += 1
            return self._form.event(b"c", self._next_key, self.last, ts_ms)
        return self._form.event(b"d", self._random.randint(1, self._rows), self.last, ts_ms)


def produce(producer: Producer, topic: str, messages: Iterable[Message], partitions: int = 1) -> int:
    """Produces all messages, spread evenly over the partitions; acknowledged on return. Returns the mean size of a value."""
    size = count = 0
    for message in messages:
        while True:
            try:
                producer.produce(topic, message.value, message.key, count % partitions)
                break
            except BufferError:
                producer.poll(0.1)
        size += len(message.value)
        count += 1
    producer.flush()
    return round(size / max(count, 1))


def produce_at_rate(producer: Producer, rate: float, seconds: float, take: Callable[[int], list[tuple[str, Message]]]) -> float:
    """Produces what ``take(count)`` returns (topics and messages) at a steady rate. Returns the rate that was reached."""
    started = due = time.monotonic()
    sent, step_s = 0, 0.01
    while (now := time.monotonic()) < started + seconds:
        count = round((now - started + step_s) * rate) - sent
        for topic, message in take(count) if count > 0 else ():
            producer.produce(topic, message.value, message.key, 0)
        sent += max(count, 0)
        producer.poll(0)
        due += step_s
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
    producer.flush()
    return sent / (time.monotonic() - started)
