"""TimestampRouter: puts the record's date into its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.errors import DataError
from connect.java.simple_date_format import PatternError, SimpleDateFormat
from connect.record import ConnectRecord
from connect.transforms.columnar.batches import ColumnTransformation
from connect.transforms.columnar.columns import RecordColumns, Unfit
from connect.transforms.record_copies import copy_record

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


class TimestampRouter(ColumnTransformation):
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
            if self._pattern is None:
                raise DataError("timestamp.format may not be null")
            try:
                self._format = SimpleDateFormat(self._pattern)
            except PatternError as e:
                raise DataError(str(e)) from e
        return self._format

    def _target(self, topic: str, timestamp: int) -> str:
        text = self._formatter().format(timestamp)
        if self._topic_format is None:
            raise DataError("topic.format may not be null")
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", text)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results: list[ConnectRecord] = []
        for record in records:
            if record.timestamp is None:
                raise DataError(f"Timestamp missing on record: {record.topic}, partition {record.partition}")
            new = copy_record(record)
            new.topic = self._target(record.topic, record.timestamp)
            results.append(new)
        return results

    def apply_columns(self, batch: RecordColumns) -> None:
        timestamps = [r.timestamp for r in batch.records]
        places = list(zip(batch.topics, timestamps, strict=True))
        targets: dict[tuple[str, int | None], str] = {}
        for topic, timestamp in set(places):
            if timestamp is None:
                raise Unfit
            targets[topic, timestamp] = self._target(topic, timestamp)
        batch.topics = [targets[place] for place in places]
