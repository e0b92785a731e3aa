"""Finds and resolves references ``${provider:path:key}`` in configurations.

The rules are those of Kafka's ``ConfigTransformer``: ``${provider:key}`` has no path, there is no nesting and no escaping, and
values are not searched for further references. A reference to an unknown provider or a missing key remains unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from connect.config.providers.api import ConfigData, ConfigProvider
from connect.errors import ConfigError, ConnectError


@dataclass(frozen=True, slots=True)
class Reference:
    """One reference in a value."""

    provider: str
    path: str
    """Empty if there is none."""
    key: str
    start: int
    end: int

    @property
    def text(self) -> str:
        return f"${{{self.provider}:{self.path}:{self.key}}}" if self.path else f"${{{self.provider}:{self.key}}}"


@dataclass(frozen=True, slots=True)
class Expiry:
    """Values that expire."""

    provider: str
    path: str
    ttl_ms: int
    restarts_only_if_changed: bool


@dataclass(frozen=True, slots=True)
class Resolution:
    """A configuration with resolved references."""

    values: dict[str, str | None] = field(repr=False)
    secrets: frozenset[str] = field(repr=False)
    """Every value that a provider returned."""
    expiries: tuple[Expiry, ...]
    unresolved: tuple[tuple[str, Reference], ...]
    """Keys of the configuration, each with a reference that its provider did not resolve."""


def find_references(value: str) -> Iterator[Reference]:
    """Yields the references in a value, in order: ``${`` up to the next ``}``, with a colon in between."""
    start = value.find("${")
    while start >= 0:
        end = value.find("}", start)
        if end < 0:
            return
        provider, colon, rest = value[start + 2 : end].partition(":")
        if colon:
            path, second, key = rest.partition(":")
            yield Reference(provider, path if second else "", key if second else rest, start, end + 1)
        # Without a colon before the brace, nothing that starts before the brace is a reference.
        start = value.find("${", end + 1)


def is_reference(value: str) -> bool:
    """Returns whether a value consists of one reference."""
    first = next(find_references(value), None)
    return first is not None and (first.start, first.end) == (0, len(value))


def resolve_references(config: Mapping[str, str | None], providers: Mapping[str, ConfigProvider]) -> Resolution:
    """Replaces every reference whose value a provider has. Calls each provider once per path.

    Raises ConfigError that names the key, the reference, and the provider when a provider fails.
    """
    wanted: dict[tuple[str, str], dict[str, tuple[str, Reference]]] = {}
    for name, value in config.items():
        for reference in find_references(value or ""):
            if reference.provider in providers:
                keys = wanted.setdefault((reference.provider, reference.path), {})
                keys.setdefault(reference.key, (name, reference))
    found = {(provider, path): _asked(providers[provider], path, keys) for (provider, path), keys in wanted.items()}
    expiries = tuple(
        Expiry(provider, path, data.ttl_ms, data.restarts_only_if_changed)
        for (provider, path), data in found.items()
        if data.ttl_ms is not None and data.ttl_ms >= 0
    )
    secrets: set[str] = set()
    unresolved: list[tuple[str, Reference]] = []
    values: dict[str, str | None] = {}
    for name, value in config.items():
        if value is None:
            values[name] = None
            continue
        parts, copied = [], 0
        for reference in find_references(value):
            data = found.get((reference.provider, reference.path))
            if data is None:
                continue
            replacement = data.data.get(reference.key)
            if replacement is None:
                unresolved.append((name, reference))
                continue
            secrets.add(replacement)
            parts += [value[copied : reference.start], replacement]
            copied = reference.end
        values[name] = "".join([*parts, value[copied:]])
    return Resolution(values, frozenset(secrets), expiries, tuple(unresolved))


def _asked(provider: ConfigProvider, path: str, keys: Mapping[str, tuple[str, Reference]]) -> ConfigData:
    name, reference = next(iter(keys.values()))
    try:
        return provider.get(path, frozenset(keys))
    except ConnectError as e:
        raise ConfigError(_cannot(e.message, name, reference), key=name) from e
    except Exception as e:
        raise ConfigError(_cannot(f"{type(e).__name__}: {e}", name, reference), key=name) from e


def _cannot(reason: str, name: str, reference: Reference) -> str:
    return f"{reason} (config provider '{reference.provider}', for {reference.text} of {name})"
