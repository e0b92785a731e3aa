"""Encoding of source records."""

from __future__ import annotations

from typing import Any

from connect.converters.simple_header import SimpleHeaderConverter
from connect.converters.string import StringConverter
from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.record import SourceRecord
from worker.source.encoding import _encode
from worker.tasks.converters import Converters


class CountingConverter(SimpleHeaderConverter):
    calls = 0

    def from_connect_header(self, topic: str, name: str, schema: Schema | None, value: Any) -> bytes | None:
        self.calls += 1
        return super().from_connect_header(topic, name, schema, value)


def test_a_header_that_records_share_is_encoded_once_per_topic() -> None:
    shared = Header("run", Schema.STRING, "a")
    records = [
        SourceRecord({}, {}, topic, value="x", headers=Headers([Header("n", Schema.INT32, n), shared]))
        for n, topic in enumerate(["t", "t", "u", "t"])
    ]
    converter = CountingConverter()
    runs = _encode(Converters(StringConverter(), StringConverter(), converter), records)
    assert [headers for run in runs for headers in run.headers or ()] == [[("n", b"%d" % n), ("run", b"a")] for n in range(4)]
    assert converter.calls == 4 + 2
