"""Suggests the key or class that the user probably meant.

Stricter than :mod:`connect.suggestions`, because lint suggests only what it considers certain enough for a finding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from connect import suggestions

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CUTOFF, _CUTOFF_SHORT, _SHORT = 0.8, 0.75, 6
"""In a short name, one letter weighs more: flie is similar to file. Long names are similar by their common prefixes."""
_CUTOFF_CLASS = 0.85
_CUTOFF_WHOLE_CLASS = 0.95


def nearest_key(word: str, known: Iterable[str]) -> str | None:
    """Returns the known name most similar to the word; None if none is similar. ``tasksMax`` matches ``tasks.max``."""
    names = sorted(known)
    wanted = _normal(word)
    for name in names:
        if _normal(name) == wanted:
            return name
    by_normal = {_normal(name): name for name in reversed(names)}
    if found := suggestions.nearest(wanted, by_normal, _CUTOFF_SHORT if len(wanted) <= _SHORT else _CUTOFF):
        return by_normal[found]
    # encoding matches converter.encoding if no other name has this ending.
    longer = [name for name in names if _normal(name).endswith(f".{wanted}")]
    return longer[0] if len(longer) == 1 else None


def did_you_mean(word: str, known: Iterable[str], prefix: str = "") -> str | None:
    """Returns ``Did you mean X?`` for the nearest known name; None if none is similar."""
    found = nearest_key(word, known)
    return None if found is None else f"Did you mean {prefix}{found}?"


def nearest_class(name: str, known: Iterable[str]) -> str | None:
    """Returns the class name or alias most similar to the name; None if none is. Simple names count more than packages."""
    names = sorted(known)
    if found := suggestions.nearest(name, names, _CUTOFF_WHOLE_CLASS):
        return found
    by_simple = {_simple(one): one for one in reversed(names) if "." not in one or "." in name}
    found = suggestions.nearest(_simple(name), by_simple, _CUTOFF_CLASS)
    return by_simple[found] if found else None


def _simple(name: str) -> str:
    return name.rpartition(".")[2].rpartition(":")[2]


def _normal(name: str) -> str:
    return re.sub(r"[_\-\s]", ".", _CAMEL.sub(".", name)).lower()
