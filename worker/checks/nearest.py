"""The name that was probably meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CUTOFF = 0.75


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that is most like the word, or None when none is much like it. ``tasksMax`` is ``tasks.max``."""
    names = sorted(known)
    wanted = _normal(word)
    for name in names:
        if _normal(name) == wanted:
            return name
    by_normal = {_normal(name): name for name in reversed(names)}
    found = get_close_matches(wanted, by_normal, n=1, cutoff=_CUTOFF)
    return by_normal[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str | None:
    """The question for it, or None."""
    found = nearest(word, known)
    return None if found is None else f"Did you mean {prefix}{found}?"


def _normal(name: str) -> str:
    return re.sub(r"[_\-\s]", ".", _CAMEL.sub(".", name)).lower()
