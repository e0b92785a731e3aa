"""The settings of providers that read files: ``allowed.paths`` and ``ttl.ms``. Apache's have no ``ttl.ms``."""

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
    doc="Comma-separated absolute paths of the files and folders, including everything below them, that the provider may read. "
    "If not set, it may read whatever the worker may.",
)

TTL_MS = ConfigKey(
    "ttl.ms",
    ConfigType.LONG,
    None,
    importance=Importance.LOW,
    doc="How often, in milliseconds, to read the values again; connectors whose values have changed are restarted. "
    "If not set, values are read only when a connector or task starts.",
    validator=Range(minimum=100, nullable=True),
)


class AllowedPaths:
    """The allowed paths of a configuration, checked once. Immutable."""

    def __init__(self, text: str | None) -> None:
        """Raises ConfigError for a path that is not absolute or does not exist, like Kafka."""
        self._allowed = None if not text else [_checked(part) for part in text.split(",")]

    def permitted(self, path: str) -> Path | None:
        """Returns the path to read; logs a warning and returns None if it is not allowed.

        As in Kafka, ``..`` is resolved first, so that no path escapes. Unlike Kafka, links out of the allowed paths are not
        followed either. Links within them are, such as those that Kubernetes creates for secrets.
        """
        if self._allowed is None:
            return Path(path)
        wanted = Path(os.path.normpath(path))
        if not any(wanted.is_relative_to(allowed) for allowed in self._allowed):
            log.warning("The path %s is not in allowed.paths: references to it are not resolved", path)
            return None
        real = Path(os.path.realpath(wanted))
        if not any(real.is_relative_to(os.path.realpath(allowed)) for allowed in self._allowed):
            log.warning("The path %s is a link to %s, outside allowed.paths: references to it are not resolved", path, real)
            return None
        return wanted


def _checked(part: str) -> Path:
    path = Path(os.path.normpath(part))
    if not path.is_absolute():
        raise ConfigError(f"Path {path} is not absolute", key=ALLOWED_PATHS.name)
    if not path.exists():
        raise ConfigError(f"Path {path} does not exist", key=ALLOWED_PATHS.name)
    return path
