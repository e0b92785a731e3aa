"""RegexRouter: changes topics by a regular expression."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.errors import DataError
from connect.java.regex_replacement import compile_replacement
from connect.record import ConnectRecord
from connect.transforms.columnar.column_transformation import ColumnTransformation
from connect.transforms.columnar.columns import RecordColumns
from connect.transforms.config import JavaRegex, compile_regex
from connect.transforms.record_copies import copy_record

_CONFIG_DEF = (
    ConfigDef()
    .define(
        "regex", ConfigType.STRING, validator=JavaRegex(), importance=Importance.HIGH,
        doc="Regular expression to use for matching.",
    )
    .define("replacement", ConfigType.STRING, importance=Importance.HIGH, doc="Replacement string.")
)  # fmt: skip
_MAX_TOPICS = 10_000


class RegexRouter(ColumnTransformation):
    """Replaces a topic that the whole expression matches; the replacement may contain ``$1`` and ``${name}``."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _CONFIG_DEF

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = _CONFIG_DEF.parse(configs)
        self._regex = compile_regex("regex", values["regex"])
        text = values["replacement"]
        self._replacement = None if text is None else compile_replacement(text, self._regex)
        self._targets: dict[str, str] = {}

    def _find_target(self, topic: str) -> str:
        if self._regex.fullmatch(topic) is None:
            target = topic
        elif self._replacement is None:
            raise DataError(f"No replacement is configured, but topic {topic} matches")
        else:
            # The first match is replaced, which may be only a part of the topic: a|ab finds a in ab.
            target = self._replacement.replace_first(self._regex, topic)
        if len(self._targets) >= _MAX_TOPICS:
            self._targets.clear()
        self._targets[topic] = target
        return target

    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        results: list[ConnectRecord] = []
        targets = self._targets
        for record in records:
            topic = record.topic
            target = targets.get(topic)
            if target is None:
                target = self._find_target(topic)
            if target == topic:
                results.append(record)
                continue
            new = copy_record(record)
            new.topic = target
            results.append(new)
        return results

    def apply_columns(self, batch: RecordColumns) -> None:
        topics = batch.topics
        targets = {topic: self._targets.get(topic) or self._find_target(topic) for topic in set(topics)}
        if any(topic != target for topic, target in targets.items()):
            batch.topics = [targets[topic] for topic in topics]
