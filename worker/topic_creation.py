"""Which topics a source may create, and how they look: ``topic.creation.*`` (KIP-158)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from connect.errors import ConfigError

_PREFIX = "topic.creation."
_OWN = ("include", "exclude", "partitions", "replication.factor")


@dataclass(frozen=True, slots=True)
class NewTopicSpec:
    """A topic to be created; -1 leaves a number to the broker."""

    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """One group: the topics it is for, and what they get."""

    name: str
    include: tuple[re.Pattern[str], ...]
    exclude: tuple[re.Pattern[str], ...]
    spec: NewTopicSpec

    def matches(self, topic: str) -> bool:
        return any(p.fullmatch(topic) for p in self.include) and not any(p.fullmatch(topic) for p in self.exclude)


@dataclass(frozen=True, slots=True)
class TopicCreationRules:
    """Groups in the order in which they are asked; the last one is the default, which takes every topic."""

    groups: tuple[TopicGroup, ...]

    def spec_for(self, topic: str) -> NewTopicSpec:
        return next(group.spec for group in self.groups if group.matches(topic))


def topic_creation_rules(config: Mapping[str, str | None]) -> TopicCreationRules | None:
    """The rules of a connector's configuration; None when it has none and the broker is left to create topics.

    Raises ConfigError, as for a missing ``topic.creation.default.partitions``.
    """
    if not any(key.startswith(_PREFIX) for key in config):
        return None
    default = _spec(config, "default", None)
    everything = (re.compile(".*", re.S),)
    groups = [
        TopicGroup(name, _patterns(config, name, "include"), _patterns(config, name, "exclude"), _spec(config, name, default))
        for name in _list(config.get(f"{_PREFIX}groups"))
        if name != "default"
    ]
    return TopicCreationRules((*groups, TopicGroup("default", everything, (), default)))


def _spec(config: Mapping[str, str | None], group: str, default: NewTopicSpec | None) -> NewTopicSpec:
    prefix = f"{_PREFIX}{group}."
    below = {key.removeprefix(prefix): value for key, value in config.items() if key.startswith(prefix) and value is not None}
    return NewTopicSpec(
        _number(prefix + "partitions", below.get("partitions"), default.partitions if default else None),
        _number(prefix + "replication.factor", below.get("replication.factor"), default.replication_factor if default else None),
        {key: value for key, value in below.items() if key not in _OWN},
    )


def _number(key: str, value: str | None, default: int | None) -> int:
    if value is None:
        if default is None:
            raise ConfigError(f'Missing required configuration "{key}" which has no default value.', key=key)
        return default
    try:
        number = int(value)
    except ValueError as e:
        raise ConfigError.invalid(key, value, "Not a number of type INT") from e
    if number < 1 and number != -1:
        raise ConfigError.invalid(key, number, "Value must be at least 1, or -1 for the broker's default")
    return number


def _patterns(config: Mapping[str, str | None], group: str, kind: str) -> tuple[re.Pattern[str], ...]:
    key = f"{_PREFIX}{group}.{kind}"
    try:
        return tuple(re.compile(pattern) for pattern in _list(config.get(key)))
    except re.error as e:
        raise ConfigError.invalid(key, config.get(key), f"not a regular expression: {e}") from e


def _list(value: str | None) -> list[str]:
    return [part.strip() for part in (value or "").split(",") if part.strip()]
