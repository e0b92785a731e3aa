"""The versions of one connector's configuration, as values: what is added, what is left out, what changed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect.errors import BadRequestError, NotFoundError
from worker.model import ConfigVersion, Origin

Config = Mapping[str, str | None]


class History(Protocol):
    """Versions of all connectors' configurations. Methods are for any thread."""

    def record(self, name: str, config: Config | None, origin: Origin) -> None:
        """Notes a configuration that a connector was given, or None when it was deleted. Returns at once; nothing is noted when
        it had it already. Never fails."""

    def observe(self, name: str, config: Config | None) -> None:
        """Notes a configuration that was found in the cluster, if it is not the last one known (``Origin.CLUSTER``)."""

    def versions(self, name: str) -> list[ConfigVersion]:
        """The oldest first; empty for an unknown name. May read from Kafka."""

    def version(self, name: str, number: int) -> ConfigVersion:
        """One of them. Raises NotFoundError."""

    def managed(self) -> frozenset[str]:
        """Connectors whose present configuration came from ``connectors.dir``. Does not wait for anything."""

    def start(self) -> None:
        """Begins what it needs."""

    def close(self) -> None:
        """Ends it, within moments."""


@dataclass(frozen=True, slots=True)
class Changes:
    """How a version differs from the one before: keys only, for values may be secrets."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def changes(before: Config | None, after: Config | None) -> Changes:
    """What is different, sorted. None counts as a configuration without keys."""
    old, new = before or {}, after or {}
    return Changes(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(old.keys() - new.keys())),
        tuple(sorted(key for key in old.keys() & new.keys() if old[key] != new[key])),
    )


def following(versions: Sequence[ConfigVersion], config: Config | None, origin: Origin, at_ms: int) -> ConfigVersion | None:
    """The version to add for a configuration; None when there is nothing new.

    The same configuration again is nothing new, but for that of a connector that a file of ``connectors.dir`` names from now on.
    """
    last = versions[-1] if versions else None
    if last is None:
        return None if config is None else ConfigVersion(1, at_ms, origin, dict(config))
    same = (last.config is None) == (config is None) and dict(last.config or {}) == dict(config or {})
    adopted = origin is Origin.DIRECTORY and last.origin is not Origin.DIRECTORY
    if same and not (adopted and config is not None):
        return None
    return ConfigVersion(last.version + 1, at_ms, origin, None if config is None else dict(config))


def is_managed(versions: Sequence[ConfigVersion]) -> bool:
    """Whether the last of them is of a file of ``connectors.dir``."""
    return bool(versions) and versions[-1].config is not None and versions[-1].origin is Origin.DIRECTORY


def find(name: str, versions: Sequence[ConfigVersion], number: int) -> ConfigVersion:
    """The version of a number. Raises NotFoundError that says which there are."""
    for version in versions:
        if version.version == number:
            return version
    if not versions:
        raise unknown(name)
    raise NotFoundError(
        f"Connector {name} has no version {number} in its history, which goes from {versions[0].version} to "
        f"{versions[-1].version}"
    )


def unknown(name: str) -> NotFoundError:
    """The error for a connector that nothing is known of."""
    return NotFoundError(f"No history found for connector {name}")


def config_to_restore(name: str, version: ConfigVersion) -> dict[str, str | None]:
    """What a rollback gives the connector. Raises BadRequestError for a deletion."""
    if version.config is None:
        raise BadRequestError(
            f"Version {version.version} of connector {name} is its deletion, which cannot be rolled back to: DELETE the "
            "connector instead"
        )
    return dict(version.config)
