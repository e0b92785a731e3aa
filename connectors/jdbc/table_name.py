"""Qualified table names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.errors import ConfigError

_CLOSING: Mapping[str, str] = {'"': '"', "`": "`", "[": "]"}


@dataclass(frozen=True, slots=True)
class TableName:
    """An unquoted table name. In MySQL, ``schema`` is the database, as in SQLAlchemy."""

    name: str
    schema: str | None = None
    catalog: str | None = None

    def __str__(self) -> str:
        """``catalog.schema.name``, without missing parts: the name in Confluent's and Aiven's offsets and lists."""
        return ".".join(part for part in (self.catalog, self.schema, self.name) if part is not None)


def split_name(text: str) -> list[str]:
    """Splits a name that may be qualified and quoted: ``"my.schema".t`` has two parts. Quotes inside quotes are doubled.

    Raises ConfigError for an unclosed quote, text after a closing quote, or an empty part.
    """
    parts: list[str] = []
    at = 0
    while True:
        if at < len(text) and text[at] in _CLOSING:
            part, at = _quoted(text, at)
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            part, at = text[at:end].strip(), end
        if not part:
            raise ConfigError(f"{text!r} is not a table name: a part is empty")
        parts.append(part)
        if at >= len(text):
            return parts
        if text[at] != ".":
            raise ConfigError(f"{text!r} is not a table name: found {text[at:]!r} after a quoted part, expected '.'")
        at += 1


def _quoted(text: str, at: int) -> tuple[str, int]:
    closing = _CLOSING[text[at]]
    found: list[str] = []
    at += 1
    while at < len(text):
        if text[at] != closing:
            found.append(text[at])
            at += 1
        elif text[at + 1 : at + 2] == closing:
            found.append(closing)
            at += 2
        else:
            return "".join(found), at + 1
    raise ConfigError(f"{text!r} is not a table name: the quote {closing} is not closed")
