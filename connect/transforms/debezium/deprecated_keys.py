"""Settings of earlier releases: still read where they have a meaning, with a note in the log."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

_log = logging.getLogger(__name__)


def note_old(name: str, instead: str) -> None:
    """Says that an old setting was read, and what there is in its place."""
    _log.warning("%s is a setting of an earlier release: %s", name, instead)


def note_ignored(configs: Mapping[str, Any], reasons: Mapping[str, str]) -> None:
    """Says of each setting that was given and does nothing here, why."""
    for name, reason in reasons.items():
        if name in configs:
            _log.warning("%s is not used: %s", name, reason)
