"""The topics that a source may create, and their settings: ``topic.creation.*`` (KIP-158)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.errors import ConfigError
from connect.java.regex import RegexError, compile_java_regex

_PREFIX = "topic.creation."
_OWN = ("include", "exclude", "partitions", "replication.factor")


@dataclass(frozen=True, slots=True)
class NewTopicSpec:
    """The settings of a new topic; -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One group: its topics, and their settings."""

    name: str
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    spec: NewTopicSpec

    def matches(self, topic: str) -> bool:
        return any(p.fullmatch(topic) for p in self.include) and not any(p.fullmatch(topic) for p in self.exclude)


@dataclass(frozen=True, slots=True)
class TopicCreationRules:
    """Groups in order of precedence; the last one is the default, which matches every topic."""

    groups: tuple[TopicGroup, ...]

    def spec_for(self, topic: str) -> NewTopicSpec:
        return next(group.spec for group in self.groups if group.matches(topic))


def topic_creation_rules(config: Mapping[str, str | None]) -> TopicCreationRules | None:
    """Parses the rules of a connector's config; None if there are none, so that the broker creates topics.

    Raises ConfigError, for example if ``topic.creation.default.partitions`` is missing.
    """
    if not any(key.startswith(_PREFIX) for key in config):
        return None
    default = _spec(config, "default", None)
    groups = [
        TopicGroup(name, _patterns(config, name, "include"), _patterns(config, name, "exclude"), _spec(config, name, default))
        for name in _list(config.get(f"{_PREFIX}groups"))
        if name != "default"
    ]
    return TopicCreationRules((*groups, *uniform_rules(default).groups))


def uniform_rules(spec: NewTopicSpec) -> TopicCreationRules:
    """Returns rules that create every topic with the same settings."""
    return TopicCreationRules((TopicGroup("default", (re.compile(".*", re.S),), (), spec),))


def _spec(config: Mapping[str, str | None], group: str, default: NewTopicSpec | None) -> NewTopicSpec:
    prefix = f"{_PREFIX}{group}."
    below = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix) and value is not None}
    # The replication factor is checked first, as in Apache (recording create-topic-creation-incomplete).
    factor = _number(prefix, "replication.factor", below, default.replication_factor if default else None)
    return NewTopicSpec(
        _number(prefix, "partitions", below, default.partitions if default else None),
        factor,
        {key: value for key, value in below.items() if key not in _OWN},
    )


_RULES = {
    "partitions": "Number of partitions must be positive, or -1 to use the broker's default",
    "replication.factor": (
        "Replication factor must be positive and not larger than the number of brokers in the Kafka cluster, "
        "or -1 to use the broker's default"
    ),
}
_TYPES = {"partitions": ConfigType.INT, "replication.factor": ConfigType.SHORT}


def _number(prefix: str, name: str, below: Mapping[str, str], default: int | None) -> int:
    key = prefix + name
    if name not in below:
        if default is None:
            raise ConfigError(f'Missing required configuration "{key}" which has no default value.', key=key)
        return default
    number = int(parse_value(key, below[name], _TYPES[name]))
    if number < 1 and number != -1:
        # Named without its prefix, as in Apache (recording create-topic-creation-zero-rf).
        raise ConfigError.invalid(name, number, _RULES[name])
    return number


def _patterns(config: Mapping[str, str | None], group: str, kind: str) -> tuple[re.Pattern[str], ...]:
    key = f"{_PREFIX}{group}.{kind}"
    try:
        return tuple(compile_java_regex(pattern) for pattern in _list(config.get(key)))
    except RegexError as e:
        raise ConfigError.invalid(key, config.get(key), f"not a regular expression: {e}") from e


def _list(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
