"""Expands lookbehinds of bounded width: ``re`` requires a fixed width, so ``(?<=x{1,3})`` becomes one lookbehind per width."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import product
from typing import Any

# No public way tells the width of a pattern.
_constants: Any = import_module("re._constants")
_parser: Any = import_module("re._parser")

_MOST_VARIANTS = 256


def expand_lookbehind(kind: str, body: str, *, captures: bool) -> str:
    """Returns a lookbehind; ``kind`` is ``=`` or ``!``, and ``body`` is translated. Raises ValueError for too many widths."""
    try:
        low, high = _parser.parse(body, re.ASCII).getwidth()
    except re.error:
        return f"(?<{kind}{body})"  # refers to a group outside; Python decides whether it can
    if low == high:
        return f"(?<{kind}{body})"
    if high >= _constants.MAXREPEAT or captures:
        raise ValueError("Look-behind group does not have an obvious maximum length")
    variants = _variants(body)
    separate = "|".join(f"(?<={variant})" for variant in variants)
    return f"(?:{separate})" if kind == "=" else f"(?!{separate})"


def _variants(body: str) -> list[str]:
    """Returns the variants of the body, one for each choice of repetitions and alternatives, each of a fixed width."""
    result: list[str] = []
    for branch in _split(body):
        choices: list[list[str]] = []
        for atom, low, high in _atoms(branch):
            inner = [f"(?:{v})" for v in _variants(atom[3:-1])] if atom.startswith("(?:") else [atom]
            choices.append([one * count for count in range(low, high + 1) for one in inner] or [""])
        size = 1
        for choice in choices:
            size *= len(choice)
        if size + len(result) > _MOST_VARIANTS:
            raise ValueError("Look-behind group has too many lengths")
        result += ["".join(parts) for parts in product(*choices)]
    return list(dict.fromkeys(result))


def _token_end(text: str, at: int) -> int:
    """Returns the position after the atom that starts here."""
    if text[at] == "\\":
        sizes: dict[str, int] = {"U": 10, "u": 6, "x": 4}
        return at + sizes.get(text[at + 1], 2)
    if text[at] == "[":
        end = at + 1
        while text[end] != "]":
            end += 2 if text[end] == "\\" else 1
        return end + 1
    if text[at] == "(":
        depth, end = 0, at
        while True:
            if text[end] == "(":
                depth += 1
            elif text[end] == ")":
                depth -= 1
                if depth == 0:
                    return end + 1
            end = _token_end(text, end) if text[end] in "\\[" else end + 1
    return at + 1


def _split(body: str) -> list[str]:
    parts, start, at = [], 0, 0
    while at < len(body):
        if body[at] == "|":
            parts.append(body[start:at])
            start = at = at + 1
            continue
        at = _token_end(body, at)
    return [*parts, body[start:]]


def _atoms(branch: str) -> list[tuple[str, int, int]]:
    atoms: list[tuple[str, int, int]] = []
    at = 0
    repeat = re.compile(r"(?:\{(\d+)(?:(,)(\d*))?\}|(\?))[?+]?")
    while at < len(branch):
        end = _token_end(branch, at)
        atom: Any = branch[at:end]
        found = repeat.match(branch, end)
        low = high = 1
        if found is not None:
            end = found.end()
            if found[4]:
                low, high = 0, 1
            else:
                low = int(found[1])
                high = int(found[3]) if found[2] and found[3] else low
        atoms.append((atom, low, high))
        at = end
    return atoms
