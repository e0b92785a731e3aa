"""``allowed.paths``: the folders and files outside of which a provider reads nothing."""

from __future__ import annotations

import logging
import os.path
from pathlib import Path

from connect.config.definition import ConfigKey, Importance
from connect.config.types import ConfigType
from connect.config.validators import Range
from connect.errors import ConfigError

log = logging.getLogger(__name__)

ALLOWED_PATHS = ConfigKey(
    "allowed.paths",
    ConfigType.STRING,
    None,
    importance=Importance.MEDIUM,
    doc="Absolute paths of files and folders, separated by commas, that may be read, with all that is below them. "
    "Not set: all that the worker may read.",
)

TTL_MS = ConfigKey(
    "ttl.ms",
    ConfigType.LONG,
    None,
    importance=Importance.LOW,
    doc="How often, in milliseconds, the values are looked up again; connectors whose values are others are restarted. "
    "Not set: they are looked up when a connector or task starts, and then never again.",
    validator=Range(minimum=100, nullable=True),
)


class AllowedPaths:
    """The paths of a configuration, checked once. Immutable."""

    def __init__(self, text: str | None) -> None:
        """Raises ConfigError for a path that is not absolute or does not exist, as Kafka does."""
        self._allowed = None if not text else [_checked(part) for part in text.split(",")]

    def permitted(self, path: str) -> Path | None:
        """The path to read, or None, after a warning, when it may not be.

        As in Kafka ``..`` is resolved first, so that no path climbs out. A link that leads out is not followed either, which
        Kafka does: links within what is allowed, as Kubernetes makes them for secrets, are.
        """
        if self._allowed is None:
            return Path(path)
        wanted = Path(os.path.normpath(path))
        if not any(wanted.is_relative_to(allowed) for allowed in self._allowed):
            log.warning("The path %s is not in allowed.paths: references to it stay as they are", path)
            return None
        real = Path(os.path.realpath(wanted))
        if not any(real.is_relative_to(os.path.realpath(allowed)) for allowed in self._allowed):
            log.warning("The path %s is a link to %s, outside of allowed.paths: references to it stay as they are", path, real)
            return None
        return wanted


def _checked(part: str) -> Path:
    path = Path(os.path.normpath(part))
    if not path.is_absolute():
        raise ConfigError(f"Path {path} is not absolute", key=ALLOWED_PATHS.name)
    if not path.exists():
        raise ConfigError(f"Path {path} does not exist", key=ALLOWED_PATHS.name)
    return path
