"""Filter and ContentBasedRouter: keep, drop, and route records by expressions."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from enum import Enum
from typing import Any

from connect.config.definition import ConfigDef, Importance, Width
from connect.config.types import ConfigType
from connect.config.validators import one_of
from connect.errors import ConfigError, DataError
from connect.expressions import GROOVY, JAVASCRIPT, RECORD_VARIABLES, Dialect, Expression, compile_expression
from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.config import compile_regex
from connect.transforms.debezium.config import OptionalRegex
from connect.transforms.record_copies import copy_record

_PREFIX = "jsr223."
_LANGUAGES: dict[str, Dialect] = {
    "groovy": GROOVY,
    **dict.fromkeys(("graal.js", "graaljs", "js", "javascript", "ecmascript", "nashorn"), JAVASCRIPT),
}
_MAX_TOPICS = 10_000


class NullHandling(Enum):
    """How records without value are handled."""

    KEEP = "keep"
    DROP = "drop"
    EVALUATE = "evaluate"


class _Language:
    """Validates ``language``."""

    def __call__(self, name: str, value: Any) -> None:
        dialect_of(name, value)

    def __str__(self) -> str:
        return ", ".join(f"{_PREFIX}{language}" for language in _LANGUAGES)


def dialect_of(key: str, language: str | None) -> Dialect:
    """The dialect for a language name. Raises ConfigError."""
    dialect = _LANGUAGES.get((language or "").removeprefix(_PREFIX).lower())
    if language is None or not language.startswith(_PREFIX) or dialect is None:
        raise ConfigError.invalid(
            key,
            language,
            f"only a safe subset of Groovy and JavaScript is supported; expected {_Language()}",
        )
    return dialect


class _Expression:
    """Validates that an expression is valid in one of the languages. ``configure`` checks the configured one."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None or not value.strip():
            raise ConfigError.invalid(name, value, "A value is required")
        try:
            compile_expression(value, RECORD_VARIABLES, GROOVY)
        except ConfigError as e:
            try:
                compile_expression(value, RECORD_VARIABLES, JAVASCRIPT)
            except ConfigError:
                raise ConfigError.invalid(name, value, e.message) from e

    def __str__(self) -> str:
        return "expression"


def _build_config_def(key: str, shown: str, doc: str) -> ConfigDef:
    return (
        ConfigDef()
        .define(
            "topic.regex", ConfigType.STRING, None, importance=Importance.LOW, width=Width.LONG, validator=OptionalRegex(),
            display_name="Topic regex", doc="Regular expression; a record whose whole topic does not match passes unchanged.",
        )
        .define(
            "language", ConfigType.STRING, importance=Importance.HIGH, width=Width.MEDIUM, validator=_Language(),
            display_name="Expression language",
            doc="Language of the expression: Groovy or JavaScript. Only the safe subset in docs/expressions.md is supported.",
        )
        .define(
            key, ConfigType.STRING, importance=Importance.HIGH, width=Width.MEDIUM, validator=_Expression(),
            display_name=shown, doc=doc,
        )
        .define(
            "null.handling.mode", ConfigType.STRING, NullHandling.KEEP.value, importance=Importance.LOW, width=Width.SHORT,
            validator=one_of(*(one.value for one in NullHandling), ignore_case=True), display_name="Handle null records",
            doc="How to handle records without value: keep and drop them, or evaluate the expression for them.",
        )
    )  # fmt: skip


class _Scripted(Transformation):
    """Selects the records for which the expression is evaluated."""

    @classmethod
    @abstractmethod
    def _expression_key(cls) -> str: ...

    @abstractmethod
    def _decide(self, record: ConnectRecord, expression: Expression) -> ConnectRecord | None: ...

    def configure(self, configs: Mapping[str, Any]) -> None:
        values = self.config_def().parse(configs)
        key = self._expression_key()
        try:
            self._expression = compile_expression(values[key], RECORD_VARIABLES, dialect_of("language", values["language"]))
        except ConfigError as e:
            raise ConfigError.invalid(key, values[key], e.message) from e
        self._nulls = NullHandling(values["null.handling.mode"].lower())
        regex = (values["topic.regex"] or "").strip()
        self._topics: re.Pattern[str] | None = compile_regex("topic.regex", regex) if regex else None
        self._topic_matches: dict[str, bool] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        if self._topics is not None and not self._matches_topic(record.topic, self._topics):
            return record
        if record.value is None and self._nulls is not NullHandling.EVALUATE:
            return record if self._nulls is NullHandling.KEEP else None
        return self._decide(record, self._expression)

    def _matches_topic(self, topic: str, regex: re.Pattern[str]) -> bool:
        matches = self._topic_matches.get(topic)
        if matches is None:
            if len(self._topic_matches) >= _MAX_TOPICS:
                self._topic_matches.clear()
            matches = self._topic_matches[topic] = regex.fullmatch(topic) is not None
        return matches


_CONDITION, _TOPIC = "condition", "topic.expression"
_FILTER_CONFIG_DEF = _build_config_def(
    _CONDITION,
    "Filtering condition",
    "The expression. Records for which it is true are kept, those for which it is false are dropped.",
)
_ROUTER_CONFIG_DEF = _build_config_def(
    _TOPIC, "Topic name expression", "The expression. Its value becomes the topic of the record; if it is null, the topic stays."
)


class ExpressionFilter(_Scripted):
    """Keeps the records for which a condition is true. Its name in configurations is ``io.debezium.transforms.Filter``; the alias
    Filter means Apache's."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _FILTER_CONFIG_DEF

    @classmethod
    def _expression_key(cls) -> str:
        return _CONDITION

    def _decide(self, record: ConnectRecord, expression: Expression) -> ConnectRecord | None:
        return record if expression.holds(record) else None


class ContentBasedRouter(_Scripted):
    """Sets the topic to the value of an expression."""

    @classmethod
    def config_def(cls) -> ConfigDef:
        return _ROUTER_CONFIG_DEF

    @classmethod
    def _expression_key(cls) -> str:
        return _TOPIC

    def _decide(self, record: ConnectRecord, expression: Expression) -> ConnectRecord | None:
        topic = expression.value(record)
        if topic is None:
            return record
        if not isinstance(topic, str) or not topic.strip():
            raise DataError(
                f"The expression {expression.source!r} returns {topic!r:.60} for this record; expected a string for the topic"
            )
        new = copy_record(record)
        new.topic = topic
        return new
