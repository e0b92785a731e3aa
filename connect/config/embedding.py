"""A table built into another below a prefix, as that of a transformation into a connector's: Kafka's ``ConfigDef.embed``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from connect.config.key import ConfigKey, Importance, Recommender

_IMPORTANCE_ORDER = (Importance.HIGH, Importance.MEDIUM, Importance.LOW)


@dataclass(frozen=True, slots=True)
class _Unprefixed:
    """A rule of the inner table: it knows its key without the prefix, and its messages say it so."""

    prefix: str
    rule: Callable[[str, Any], None]

    def __call__(self, name: str, value: Any) -> None:
        self.rule(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.rule)


class _UnprefixedRecommender(Recommender):
    def __init__(self, prefix: str, inner: Recommender) -> None:
        self._prefix = prefix
        self._inner = inner

    def _own(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        size = len(self._prefix)
        return {name[size:]: value for name, value in parsed.items() if name.startswith(self._prefix)}

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> list[Any]:
        return self._inner.valid_values(name.removeprefix(self._prefix), self._own(parsed))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self._inner.visible(name.removeprefix(self._prefix), self._own(parsed))


def embedded_keys(keys: Iterable[ConfigKey], prefix: str, group: str, first_order: int) -> list[ConfigKey]:
    """The keys as the outer table has them: prefixed, in a group named after the outer one, numbered from ``first_order``."""
    return [_embedded(key, prefix, group, order) for order, key in enumerate(sorted_keys(keys), start=first_order)]


def sorted_keys(keys: Iterable[ConfigKey]) -> list[ConfigKey]:
    """Kafka's order of a table by itself: by group and order, required first, then importance and name."""
    listed = list(keys)
    groups = {group: i for i, group in enumerate(dict.fromkeys(key.group for key in listed if key.group is not None))}
    return sorted(
        listed,
        key=lambda key: (
            -1 if key.group is None else groups[key.group],
            key.order,
            not key.required,
            _IMPORTANCE_ORDER.index(key.importance),
            key.name,
        ),
    )


def _embedded(key: ConfigKey, prefix: str, group: str, order: int) -> ConfigKey:
    return replace(
        key,
        name=prefix + key.name,
        validator=None if key.validator is None else _Unprefixed(prefix, key.validator),
        recommender=None if key.recommender is None else _UnprefixedRecommender(prefix, key.recommender),
        group=group if key.group is None else f"{group}: {key.group}",
        order=order,
        display_name=key.display_name or key.name,
        dependents=tuple(prefix + name for name in key.dependents),
        aliases=tuple(prefix + name for name in key.aliases),
    )
