"""Plants secrets, and finds them again in any form in which a program could print them."""

from __future__ import annotations

import base64
import re

_CORE = re.compile(r"pl4nt(\d\d\d)s3cr3t")


class Planted:
    """Hands out distinct secrets. Their cores stay the same in URLs, JSON, and Python's text; base64 is looked for besides."""

    def __init__(self) -> None:
        self.places: list[str] = []
        """Where each secret was planted, by its number."""
        self._base64: list[tuple[str, ...]] = []

    def secret(self, place: str, around: str = "") -> str:
        """``around`` has characters that URLs, JSON, or Python write in other ways."""
        value = f"pl4nt{len(self.places):03d}s3cr3t{around}"
        self.places.append(place)
        self._base64.append(_base64_forms(value))
        return value

    def found_in(self, text: str) -> list[str]:
        """Returns the places whose secrets are in a text."""
        numbers = {int(one[1]) for one in _CORE.finditer(text)}
        numbers |= {number for number, forms in enumerate(self._base64) if any(form in text for form in forms)}
        return [f"{number} {self.places[number]}" for number in sorted(numbers)]


def _base64_forms(value: str) -> tuple[str, ...]:
    """The base64 texts of a value after 0, 1, or 2 bytes of a group, without what depends on its neighbors."""
    found = []
    for shift in range(3):
        data = b"x" * shift + value.encode()
        found.append(base64.b64encode(data).decode()[4 if shift else 0 : len(data) // 3 * 4])
    return tuple(found)
