"""Versions of a connector's configuration: which are added, which are skipped, and how they differ. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect.errors import BadRequestError, NotFoundError
from worker.model import ConfigVersion, Origin

Config = Mapping[str, str | None]


class History(Protocol):
    """Versions of all connectors' configurations. Any thread may call the methods."""

    def record(self, name: str, config: Config | None, origin: Origin) -> None:
        """Adds a connector's new configuration, or None when it was deleted, unless it is unchanged. Returns at once; never
        fails."""

    def observe(self, name: str, config: Config | None) -> None:
        """Adds a configuration that was found in the cluster, unless it is the last one (``Origin.CLUSTER``)."""

    def versions(self, name: str) -> list[ConfigVersion]:
        """Returns the versions, oldest first; none for an unknown name. May read from Kafka."""

    def version(self, name: str, number: int) -> ConfigVersion:
        """Returns one version. Raises NotFoundError."""

    def managed(self) -> frozenset[str]:
        """Returns the connectors whose current configuration came from ``connectors.dir``. Does not block."""

    def start(self) -> None:
        """Starts the history."""

    def close(self) -> None:
        """Closes the history, within seconds."""


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """How a version differs from its predecessor: keys only, because values may be secrets."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]


def diff(before: Config | None, after: Config | None) -> ConfigDiff:
    """Compares two configurations; the keys are sorted. None counts as a configuration without keys."""
    old, new = before or {}, after or {}
    return ConfigDiff(
        tuple(sorted(new.keys() - old.keys())),
        tuple(sorted(old.keys() - new.keys())),
        tuple(sorted(key for key in old.keys() & new.keys() if old[key] != new[key])),
    )


def next_version(versions: Sequence[ConfigVersion], config: Config | None, origin: Origin, at_ms: int) -> ConfigVersion | None:
    """Returns the version to add for a configuration, or None if nothing changed.

    An unchanged configuration is added only when a file of ``connectors.dir`` takes over the connector.
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
    """Returns whether the last version came from a file of ``connectors.dir``."""
    return bool(versions) and versions[-1].config is not None and versions[-1].origin is Origin.DIRECTORY


def find(name: str, versions: Sequence[ConfigVersion], number: int) -> ConfigVersion:
    """Returns the version with a number. Raises NotFoundError that names the available ones."""
    for version in versions:
        if version.version == number:
            return version
    if not versions:
        raise no_history(name)
    raise NotFoundError(
        f"Connector {name} has no version {number} in its history, which goes from {versions[0].version} to "
        f"{versions[-1].version}"
    )


def no_history(name: str) -> NotFoundError:
    """Builds the error for a connector without history."""
    return NotFoundError(f"No history found for connector {name}")


def config_to_restore(name: str, version: ConfigVersion) -> dict[str, str | None]:
    """Returns the configuration that a rollback restores. Raises BadRequestError for a deletion."""
    if version.config is None:
        raise BadRequestError(
            f"Version {version.version} of connector {name} is its deletion, which cannot be rolled back to: DELETE the "
            "connector instead"
        )
    return dict(version.config)
