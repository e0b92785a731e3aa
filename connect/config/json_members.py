"""Where the members of JSON objects stand: what ``json`` does not tell, and findings need."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from json import JSONDecoder

_STRINGS = JSONDecoder(strict=False)
_COLON = re.compile(r"\s*:")
_NEXT = re.compile(r'["{}\[\]]')


@dataclass(frozen=True, slots=True)
class Member:
    """The name of one member of one object of a JSON text."""

    objects: tuple[str, ...]
    """The names on the way to the object that it is of: empty for the outermost. An array counts as what it is the value of."""
    name: str
    line: int
    """Counted from 1."""


def members_of(text: str) -> Iterator[Member]:
    """Every member of every object of a JSON text, in order. The text must be valid JSON: nothing is checked here."""
    # For each open bracket, the name of the member whose value it is.
    names: list[str] = []
    last = ""
    position, counted, line = 0, 0, 1
    while (found := _NEXT.search(text, position)) is not None:
        position = found.end()
        match found[0]:
            case "{" | "[":
                names.append(last)
            case "}" | "]":
                last = names.pop()
            case _:
                line += text.count("\n", counted, found.start())
                counted = found.start()
                word, position = _STRINGS.raw_decode(text, found.start())
                # A string is a name if a colon follows; strings that are values are passed over.
                if _COLON.match(text, position):
                    last = word
                    yield Member(tuple(names[1:]), word, line)
