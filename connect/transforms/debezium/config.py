"""What Debezium's transformations share: optional regular expressions, and warnings about deprecated and unused keys."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from connect.transforms.config import JavaRegex

_log = logging.getLogger(__name__)


class OptionalRegex(JavaRegex):
    """Validates a Java regular expression; null and blank text mean that there is none."""

    __slots__ = ()

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and value.strip():
            JavaRegex.__call__(self, name, value)


def warn_deprecated(name: str, replacement: str) -> None:
    """Logs that a deprecated key was read, and what replaces it."""
    _log.warning("%s is deprecated: %s", name, replacement)


def warn_ignored(configs: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Logs each given key that has no effect, with the reason."""
    for name, reason in reasons.items():
        if name in configs:
            _log.warning("%s is ignored: %s", name, reason)
