"""The seed and the sizes of random tests. A failure is replayed by its variables (`replay_variables`) and the ID of the test.

Each test creates its own generators, so what it draws does not depend on the tests that run before it.
"""

from __future__ import annotations

import os
import random


def _whole_number(variable: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{variable}={text} is not a whole number, such as {variable}=7") from None


SEED = _whole_number("SLUICE_SEED", os.environ.get("SLUICE_SEED", "20261129"))

_sizes: dict[str, str] = {}


def chance(name: str | int = "") -> random.Random:
    """Creates a generator. Equal seeds and names give equal ones, in any process."""
    return random.Random(f"{SEED}-{name}")


def size(variable: str, default: int) -> int:
    """Reads how much a random test does from the environment, such as SLUICE_KILLS."""
    text = os.environ.get(variable)
    if text is None:
        return default
    _sizes[variable] = text
    return _whole_number(variable, text)


def replay_variables() -> dict[str, str]:
    """The variables of the environment that decide what the imported tests do: the seed, and the sizes that are set."""
    return {"SLUICE_SEED": str(SEED), **_sizes}
