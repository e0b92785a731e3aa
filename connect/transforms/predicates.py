"""Apache's predicates: HasHeaderKey, RecordIsTombstone, TopicNameMatches. Source: KIP-585."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef, Importance
from connect.config.types import ConfigType
from connect.config.validators import NonEmpty
from connect.record import ConnectRecord
from connect.transforms.api import Predicate
from connect.transforms.config import JavaRegex, compile_regex

_HAS_HEADER = ConfigDef().define(
    "name", ConfigType.STRING, validator=NonEmpty(), importance=Importance.MEDIUM, doc="The header name."
)  # fmt: skip
_TOPIC = ConfigDef().define(
    "pattern", ConfigType.STRING, validator=JavaRegex(non_empty=True), importance=Importance.MEDIUM,
    doc="A Java regular expression for matching against the name of a record's topic.",
)  # fmt: skip
_NONE = ConfigDef()
_MAX_TOPICS = 10_000


class HasHeaderKey(Predicate):
    """True for records with a header of that name."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _HAS_HEADER

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._name: str = _HAS_HEADER.parse(configs)["name"]

    def test(self, record: ConnectRecord) -> bool:
        return record.headers is not None and any(h.key == self._name for h in record.headers)

    def test_batch(self, records: Sequence[ConnectRecord]) -> list[bool]:
        name = self._name
        return [headers is not None and any(h.key == name for h in headers) for headers in [r.headers for r in records]]


class RecordIsTombstone(Predicate):
    """True for records whose value is null."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _NONE

    def configure(self, configs: Mapping[str, Any]) -> None:
        return None

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def test_batch(self, records: Sequence[ConnectRecord]) -> list[bool]:
        return [record.value is None for record in records]


class TopicNameMatches(Predicate):
    """True for records whose whole topic name the expression matches."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _TOPIC

    def configure(self, configs: Mapping[str, Any]) -> None:
        self._pattern = compile_regex("pattern", _TOPIC.parse(configs)["pattern"])
        self._known: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        matches = self._known.get(record.topic)
        return self._matches(record.topic) if matches is None else matches

    def test_batch(self, records: Sequence[ConnectRecord]) -> list[bool]:
        topics = [record.topic for record in records]
        matches = {topic: self._matches(topic) for topic in set(topics)}
        return [matches[topic] for topic in topics]

    def _matches(self, topic: str) -> bool:
        if topic not in self._known:
            if len(self._known) >= _MAX_TOPICS:
                self._known.clear()
            self._known[topic] = self._pattern.fullmatch(topic) is not None
        return self._known[topic]
