"""The text format of PostgreSQL's COPY."""

from __future__ import annotations

_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def unescape_copy(text: str) -> str:
    """Removes the backslash escapes from a field."""
    parts = text.split("\\")
    found = [parts[0]]
    at = 1
    while at < len(parts):
        part = parts[at]
        if part:
            found.append(_ESCAPES.get(part[0], part[0]) + part[1:])
        elif at + 1 < len(parts):  # two backslashes are one
            at += 1
            found.append("\\" + parts[at])
        at += 1
    return "".join(found)
