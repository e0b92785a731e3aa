"""TimestampRouter: adds the record's timestamp to its topic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.errors import DataError
from connect.java.simple_date_format import PatternError, SimpleDateFormat
from connect.record import ConnectRecord
from connect.transforms.columnar.column_transformation import ColumnTransformation
from connect.transforms.columnar.columns import NotColumnar, RecordColumns
from connect.transforms.record_copies import copy_record

_CONFIG_DEF = (
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
    """Formats the topic from ``${topic}`` and ``${timestamp}``. Raises DataError for a record without timestamp."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._topic_format: str | None = values["topic.format"]
        self._pattern: str | None = values["timestamp.format"]
        self._format: SimpleDateFormat | None = None

    def _get_format(self) -> SimpleDateFormat:
        # Created at the first record, as in Apache: a wrong pattern does not fail the start (vector TimestampRouter-0121).
        if self._format is None:
            if self._pattern is None:
                raise DataError("timestamp.format may not be null")
            try:
                self._format = SimpleDateFormat(self._pattern)
            except PatternError as e:
                raise DataError(str(e)) from e
        return self._format

    def _format_topic(self, topic: str, timestamp: int) -> str:
        text = self._get_format().format(timestamp)
        if self._topic_format is None:
            raise DataError("topic.format may not be null")
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", text)

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results: list[ConnectRecord] = []
        for record in records:
            if record.timestamp is None:
                raise DataError(f"Timestamp missing on record: {record.topic}, partition {record.partition}")
            new = copy_record(record)
            new.topic = self._format_topic(record.topic, record.timestamp)
            results.append(new)
        return results

    def apply_columns(self, batch: RecordColumns) -> None:
        timestamps = [r.timestamp for r in batch.records]
        pairs = list(zip(batch.topics, timestamps, strict=True))
        targets: dict[tuple[str, int | None], str] = {}
        for topic, timestamp in set(pairs):
            if timestamp is None:
                raise NotColumnar
            targets[topic, timestamp] = self._format_topic(topic, timestamp)
        batch.topics = [targets[pair] for pair in pairs]
