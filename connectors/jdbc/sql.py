"""SQL text with bound values, independent of a driver's parameter style.

Only names that a dialect quoted become SQL text; values are always a :class:`Bind`. So text from topics, fields, tables, or
records never becomes SQL.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Bind:
    """A value that the driver passes as a parameter."""

    value: Any


class Sql:
    """An immutable statement, composed with ``+``: ``Sql("SELECT * FROM ", name, " WHERE ", column, " > ", Bind(5))``."""

    __slots__ = ("parts",)

    def __init__(self, *parts: str | Bind | Sql) -> None:
        flat: list[str | Bind] = []
        for part in parts:
            if isinstance(part, Sql):
                flat.extend(part.parts)
            elif part != "":
                flat.append(part)
        self.parts: tuple[str | Bind, ...] = tuple(flat)

    def __add__(self, other: str | Bind | Sql) -> Sql:
        return Sql(self, other)

    def __bool__(self) -> bool:
        return bool(self.parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sql) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """The statement for logs: values show as ``?``, as in the logs of Confluent's connector."""
        return "".join(part if isinstance(part, str) else "?" for part in self.parts)

    def __repr__(self) -> str:
        return f"Sql({self.text!r})"

    @property
    def values(self) -> list[Any]:
        return [part.value for part in self.parts if isinstance(part, Bind)]

    def render(self, paramstyle: str) -> tuple[str, Sequence[Any] | dict[str, Any] | None]:
        """Returns text and parameters for a DBAPI paramstyle (PEP 249, and ``numeric_dollar``); None instead of no parameters."""
        if not any(isinstance(part, Bind) for part in self.parts):
            # Drivers do not look for marks in a statement without parameters, so % needs no escape.
            return "".join(part for part in self.parts if isinstance(part, str)), None
        doubles = paramstyle in ("format", "pyformat")
        text: list[str] = []
        values: list[Any] = []
        for part in self.parts:
            if isinstance(part, str):
                text.append(part.replace("%", "%%") if doubles else part)
                continue
            values.append(part.value)
            text.append(_mark(paramstyle, len(values)))
        if paramstyle == "named":
            return "".join(text), {f"p{number}": value for number, value in enumerate(values, 1)}
        return "".join(text), tuple(values)


def _mark(paramstyle: str, number: int) -> str:
    match paramstyle:
        case "format" | "pyformat":
            return "%s"
        case "named":
            return f":p{number}"
        case "numeric":
            return f":{number}"
        case "numeric_dollar":
            return f"${number}"
        case _:
            return "?"


def joined(separator: str, parts: Iterable[str | Bind | Sql]) -> Sql:
    """Joins parts with a separator."""
    out: list[str | Bind | Sql] = []
    for part in parts:
        if out:
            out.append(separator)
        out.append(part)
    return Sql(*out)
