"""TimestampRouter: puts the record's date into its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.errors import DataError
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.record_sides import copy_record
from connect.transforms.simple_date_format import PatternError, SimpleDateFormat

_TABLE = (
    ConfigDef()
    .define(
        "topic.format", ConfigType.STRING, "${topic}-${timestamp}", importance=Importance.HIGH,
        doc="Format string which can contain <code>${topic}</code> and <code>${timestamp}</code> as placeholders for the topic "
        "and timestamp, respectively.",
    )
    .define(
        "timestamp.format", ConfigType.STRING, "yyyyMMdd", importance=Importance.HIGH,
        doc="Format string for the timestamp that is compatible with <code>java.text.SimpleDateFormat</code>.",
    )
)  # fmt: skip


class TimestampRouter(Transformation):
    """The topic becomes the format with ``${topic}`` and ``${timestamp}`` filled in. A record without timestamp is refused."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TABLE

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _TABLE.parse(configs)
        self._topic_format: str | None = values["topic.format"]
        self._pattern: str | None = values["timestamp.format"]
        self._format: SimpleDateFormat | None = None

    def _formatter(self) -> SimpleDateFormat:
        # Made at the first record, as in the original: a wrong pattern does not fail the configuration (TimestampRouter-0121).
        if self._format is None:
            if self._pattern is None or self._topic_format is None:
                raise DataError("topic.format and timestamp.format may not be null")
            try:
                self._format = SimpleDateFormat(self._pattern)
            except PatternError as e:
                raise DataError(str(e)) from e
        return self._format

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_batch((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        results: list[ConnectRecord | None] = []
        last: tuple[str, int] | None = None
        target = ""
        for record in records:
            if record.timestamp is None:
                raise DataError(f"Timestamp missing on record: {record.topic}, partition {record.partition}")
            if last != (record.topic, record.timestamp):
                text = self._formatter().format(record.timestamp)
                assert self._topic_format is not None
                target = self._topic_format.replace("${topic}", record.topic).replace("${timestamp}", text)
                last = (record.topic, record.timestamp)
            new = copy_record(record)
            new.topic = target
            results.append(new)
        return results
