"""Cases of parametrized tests, of which `make test` runs some."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def first_fast(cases: Iterable[Any], count: int = 1) -> list[Any]:
    """Marks all cases long but the first ones, for ``pytest.mark.parametrize``. Tuples are the values of several arguments."""
    found = list(cases)
    return [*found[:count], *map(_mark_long, found[count:])]


def _mark_long(case: Any) -> Any:
    if hasattr(case, "marks"):  # made with pytest.param
        return pytest.param(*case.values, id=case.id, marks=(*case.marks, pytest.mark.long))
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)
