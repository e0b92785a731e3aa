"""Names of tables' topics: Debezium's strategies (``topic.naming.strategy``) that use schema and table."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from connect.config.definition import ConfigDef, ConfigType, ConfigValue, Importance
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex
from connect.java.regex_replacement import compile_replacement
from connectors.cdc.config.validators import SupportedValues
from connectors.cdc.name_adjustment import escape_units

_PACKAGE = "io.debezium.schema."
_DEFAULT, _REGEX, _UNICODE = (
    f"{_PACKAGE}Schema{name}" for name in ("TopicNamingStrategy", "RegexTopicNamingStrategy", "UnicodeTopicNamingStrategy")
)
DATABASE_STRATEGIES = tuple(
    f"{_PACKAGE}Default{name}" for name in ("TopicNamingStrategy", "RegexTopicNamingStrategy", "UnicodeTopicNamingStrategy")
)
"""The same for sources whose tables are in databases instead of schemas."""
SCHEMA_STRATEGIES = (_DEFAULT, _REGEX, _UNICODE)
_REGEX_NAMES = (_REGEX.lower(), DATABASE_STRATEGIES[1].lower())
_KEY = "topic.naming.strategy"
_INVALID = re.compile(r"[^A-Za-z0-9._-]")
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9.-]")
"""The underscore begins the code of a character."""


@dataclass(frozen=True, slots=True)
class TopicNaming:
    """Names topics. ``shares_topics``: several tables may have one topic, because the user has asked for it."""

    prefix: str
    delimiter: str
    adjust: Callable[[str], str]
    shares_topics: bool = False

    def topic(self, schema: str, table: str) -> str:
        """The topic of a table: ``prefix.schema.table``, adjusted by the strategy."""
        return self.adjust(self.delimiter.join((self.prefix, schema, table)))


def define_topic_naming_keys(keys: ConfigDef, word: str, strategies: tuple[str, ...]) -> None:
    """``word`` is what contains tables. ``strategies`` are the classes that name topics plainly, by a regular expression, and
    with codes for characters."""
    plain, regex, unicode = strategies
    keys.define(
        _KEY,
        ConfigType.STRING,
        plain,
        group="Topics",
        importance=Importance.LOW,
        validator=SupportedValues(
            tuple(name.lower() for name in strategies), f"topics are named by {word} and table; use one of the strategies listed"
        ),
        doc=f"How topics are named: <topic.prefix>.<{word}>.<table> with _ for each invalid character "
        f"({plain}), with _uxxxx for each invalid character and for _ ({unicode}), or changed by topic.regex "
        f"({regex}).",
    )
    keys.define(
        "topic.regex",
        ConfigType.STRING,
        None,
        group="Topics",
        importance=Importance.LOW,
        doc=f"Java regular expression for whole names of topics, with {regex}. Tables may then share a topic: make sure that "
        "their keys differ.",
    )
    keys.define(
        "topic.replacement",
        ConfigType.STRING,
        None,
        group="Topics",
        importance=Importance.LOW,
        doc="What replaces a name that topic.regex matches; $1 is its first group.",
    )


def parse_topic_naming(values: Mapping[str, Any]) -> TopicNaming:
    """Parses the keys. Raises ConfigError."""
    prefix, delimiter = values["topic.prefix"], values["topic.delimiter"]
    name = values[_KEY].lower()
    if name in _REGEX_NAMES:
        return TopicNaming(prefix, delimiter, _regex_replacement(values), shares_topics=True)
    if name.endswith("unicodetopicnamingstrategy"):
        return TopicNaming(prefix, delimiter, _encode_characters)
    return TopicNaming(prefix, delimiter, _replace_characters)


def find_topic_naming_errors(config: Mapping[str, str]) -> list[ConfigValue]:
    """Finds errors of keys that depend on one another."""
    if config.get(_KEY, "").lower() not in _REGEX_NAMES:
        return []
    found: dict[str, ConfigValue] = {}
    for check in (_regex, _replacement_text, _regex_replacement):
        try:
            check(config)
        except ConfigError as e:
            name = e.key or _KEY
            found.setdefault(name, ConfigValue(name, config.get(name), errors=[e.message]))
    return list(found.values())


def _replace_characters(topic: str) -> str:
    return _INVALID.sub("_", topic)


def _encode_characters(topic: str) -> str:
    return _NOT_PLAIN.sub(lambda found: escape_units(found[0]), topic)


def _required(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    if not value or not value.strip():
        raise ConfigError.invalid(name, value or None, f"required with {_KEY}={values[_KEY]}")
    return str(value)


def _regex(values: Mapping[str, Any]) -> re.Pattern[str]:
    pattern = _required(values, "topic.regex")
    try:
        return compile_java_regex(pattern)
    except RegexError as e:
        raise ConfigError.invalid("topic.regex", pattern, f"not a regular expression: {e}") from e


def _replacement_text(values: Mapping[str, Any]) -> str:
    return _required(values, "topic.replacement")


def _regex_replacement(values: Mapping[str, Any]) -> Callable[[str], str]:
    regex, text = _regex(values), _replacement_text(values)
    replacement = compile_replacement(text, regex)
    if replacement.error is not None:
        raise ConfigError.invalid("topic.replacement", text, replacement.error)

    def replace(topic: str) -> str:
        topic = _replace_characters(topic)
        if regex.fullmatch(topic) is None:
            return topic
        return replacement.replace_first(regex, topic) or topic

    return replace
