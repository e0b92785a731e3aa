"""Names in messages: the known one that the user probably meant, and lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches


def nearest(name: str, candidates: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Returns the candidate most similar to the name; None if no similarity, from 0 to 1, reaches the cutoff."""
    found = similar_names(name, candidates, 1, cutoff)
    return found[0] if found else None


def similar_names(name: str, candidates: Iterable[str], most: int, cutoff: float = 0.6) -> list[str]:
    """Returns at most so many candidates, the most similar first, whose similarity reaches the cutoff."""
    return get_close_matches(name, list(candidates), n=most, cutoff=cutoff)


def did_you_mean(name: str, candidates: Iterable[str], before: str = "") -> str:
    """Returns ``did you mean X?``, preceded by a text; an empty text if no candidate is similar."""
    found = nearest(name, candidates)
    return "" if found is None else f"{before}did you mean {found}?"


def list_names(names: Sequence[object], most: int = 5) -> str:
    """Returns ``a, b, c``, or the first ones with the number of the others: ``a, b and 3 more``."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")
