"""The syntax tree of an expression. ``start`` and ``end`` are positions in its text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    """A number, text, true, false, or null."""

    start: int
    end: int
    value: Any


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression literal."""

    start: int
    end: int
    pattern: str
    flags: str


@dataclass(frozen=True, slots=True)
class Variable:
    start: int
    end: int
    name: str


@dataclass(frozen=True, slots=True)
class Template:
    """Texts and expressions, concatenated to one text."""

    start: int
    end: int
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    start: int
    end: int
    members: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Property:
    """``target.name``; if ``safe`` (``?.``), the property of null is null."""

    start: int
    end: int
    target: Node
    name: str
    safe: bool


@dataclass(frozen=True, slots=True)
class Index:
    """``target[index]``."""

    start: int
    end: int
    target: Node
    index: Node
    safe: bool


@dataclass(frozen=True, slots=True)
class Call:
    """``target.name(arguments)``."""

    start: int
    end: int
    target: Node
    name: str
    arguments: tuple[Node, ...]
    safe: bool


@dataclass(frozen=True, slots=True)
class Function:
    """``name(arguments)``."""

    start: int
    end: int
    name: str
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Unary:
    start: int
    end: int
    operator: str
    operand: Node


@dataclass(frozen=True, slots=True)
class Binary:
    start: int
    end: int
    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Logical:
    """``&&``, ``||``, or ``??`` of two or more operands."""

    start: int
    end: int
    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Conditional:
    """``condition ? yes : no``; if ``yes`` is None, the value of the condition (``?:``)."""

    start: int
    end: int
    condition: Node
    yes: Node | None
    no: Node


Node: TypeAlias = (
    Literal | Pattern | Variable | Template | ListOf | Property | Index | Call | Function | Unary | Binary | Logical | Conditional
)
