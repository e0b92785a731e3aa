"""What offsets contain besides a position: the state of signals, snapshots, and contracts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OffsetExtras:
    """Members of all offsets from now on, by the object that they belong to."""

    def __init__(self) -> None:
        self._extras: dict[object, Mapping[str, Any]] = {}
        self.offset_extras: Mapping[str, Any] = {}
        """Added to all offsets."""

    def set_offset_extras(self, owner: object, extras: Mapping[str, Any]) -> None:
        """Sets what ``owner`` adds to offsets."""
        self._extras[owner] = extras
        self.offset_extras = {key: value for part in self._extras.values() for key, value in part.items()}
