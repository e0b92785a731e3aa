"""Subject names: under which name a schema is registered."""

from __future__ import annotations

from enum import Enum

from connect.errors import ConfigError, DataError

_PACKAGES = ("io.confluent.kafka.serializers.subject.", "io.confluent.kafka.serializers.subject.strategy.", "")


class SubjectNameStrategy(Enum):
    """Confluent's three strategies."""

    TOPIC = "TopicNameStrategy"
    RECORD = "RecordNameStrategy"
    TOPIC_RECORD = "TopicRecordNameStrategy"

    def subject(self, topic: str, is_key: bool, record_name: str | None) -> str:
        """The subject. Raises DataError when a record's name is needed and the schema has none."""
        if self is SubjectNameStrategy.TOPIC:
            return f"{topic}-{'key' if is_key else 'value'}"
        if record_name is None:
            part = "key" if is_key else "value"
            raise DataError(
                f"{part}.subject.name.strategy is {self.value}, but the schema of the {part} in topic {topic} is no record with "
                f"a name; use TopicNameStrategy or give the schema a name"
            )
        return record_name if self is SubjectNameStrategy.RECORD else f"{topic}-{record_name}"


def strategy_named(key: str, name: str) -> SubjectNameStrategy:
    """The strategy of that class name, Confluent's full name or the short one. Raises ConfigError."""
    for strategy in SubjectNameStrategy:
        if name in {package + strategy.value for package in _PACKAGES}:
            return strategy
    known = ", ".join(strategy.value for strategy in SubjectNameStrategy)
    raise ConfigError.invalid(key, name, f"Class {name} could not be found. Known are {known}")
