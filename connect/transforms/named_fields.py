"""Errors of single fields, which know their field."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.errors import DataError


def naming(field: str, convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same conversion, whose errors are about that field."""

    def converted(value: Any) -> Any:
        try:
            return convert(value)
        except DataError as e:
            e.in_field(field)
            raise

    return converted
