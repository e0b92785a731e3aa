"""A setting that is a regular expression or nothing."""

from __future__ import annotations

from typing import Any

from connect.transforms.config import JavaRegex


class OptionalRegex(JavaRegex):
    """A Java regular expression; null and blank text mean none."""

    __slots__ = ()

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and value.strip():
            JavaRegex.__call__(self, name, value)
