"""Random programs: long ones, with failed calls and frozen tasks anywhere."""

from __future__ import annotations

import random
from collections.abc import Collection

from tests.support.lake.model import APPENDED, ORDERED, ORDERED_SOFTLY, SOFTLY, VERSIONS
from tests.support.lake.scheduler import Case

_IDS = 5
_LATEST_CALL = 25
_STEPS = {
    "put": 8,
    "commit": 8,
    "maintain": 3,
    "open": 2,
    "close": 1,
    "kill": 1,
    "append": 2,
    "delete": 1,
    "rewrite": 1,
    "clean": 1,
    "branch": 1,
    "column": 1,
    "back": 1,
}
"""What happens, and how often in comparison."""
_FOREIGN = ("append", "delete", "rewrite", "clean", "branch", "column")


def random_case(chance: random.Random, format_: str, mode: str, records: int, *, truncates: bool = True) -> Case:
    """A topic of one or two partitions, whose keys differ unless the source orders rows. Only one partition alone may have
    truncates, which have no order among rows of several."""
    count = chance.choice((1, 2))
    parts = []
    for number in range(count):
        words = []
        for _ in range(records):
            op = chance.choices("cudt", (3, 3, 2, 0.3 if truncates and count == 1 else 0))[0]
            op = "c" if mode == APPENDED and op in "dt" else op
            id_ = chance.randrange(_IDS)
            words.append("t" if op == "t" else f"{op}{id_ if mode in (ORDERED, ORDERED_SOFTLY) else count * id_ + number}")
        parts.append(" ".join(words))
    return Case(format_, mode, " | ".join(parts))


def random_program(
    chance: random.Random, case: Case, steps: int, *, splits: bool = True, without: Collection[str] = ()
) -> list[str]:  # fmt: skip
    """Steps of two sinks, a foreign writer, and the operator who repairs what it did. ``splits``: a task may get or lose one of
    several partitions. ``without``: what does not happen."""
    partitions = range(case.topic.count("|") + 1 if splits else 0)
    program, was_moved = ["A open", "A put 2", "A commit"], False
    while len(program) < steps:
        (verb,) = chance.choices(list(_STEPS), list(_STEPS.values()))
        if verb in without:
            continue
        if verb == "back" and not was_moved:
            was_moved = True
            # Tasks that have just read the table.
            program += ["A kill", "B kill", "A take 2", "B open", "A commit", f"F back {chance.randint(1, 3)}"]
            program += [
                _of_sink(chance, verb, partitions) for verb in chance.choices(("put", "commit", "maintain", "close"), k=6)
            ]
            program += ["A close", "B close", "O reset", "A open", "B open"]
        elif verb == "back":
            continue
        elif verb in _FOREIGN:
            program.append(_of_foreign(chance, case, verb))
        else:
            program.append(_of_sink(chance, verb, partitions) + _disturbance(chance, case))
    return program


def _of_foreign(chance: random.Random, case: Case, verb: str) -> str:
    keeps_rows = case.mode in (SOFTLY, ORDERED_SOFTLY, VERSIONS)
    if verb == "append":
        # A key of the topic, too: its row is replaced then.
        return f"F append {chance.choice((50, 51) if keeps_rows or case.mode == APPENDED else (50, 51, 1, 2))}"
    return f"F delete {chance.randrange(_IDS)}" if verb == "delete" else f"F {verb}"


def _of_sink(chance: random.Random, verb: str, partitions: range) -> str:
    name = chance.choice("AB")
    if verb == "put":
        return f"{name} put {chance.randint(1, 4)}"
    if verb in ("open", "close") and partitions and chance.random() < 0.3:
        return f"{name} {verb} {chance.choice(partitions)}"
    return f"{name} {verb}"


def _disturbance(chance: random.Random, case: Case) -> str:
    drawn = chance.random()
    if drawn < 0.2:
        return f" !{chance.randint(1, _LATEST_CALL)} {chance.choice(('before', 'after'))}"
    if drawn < 0.3:
        verbs = chance.sample(("rewrite", "append", "delete"), 2)
        # To Delta, an insert in the middle of an upsert is one after it, so it has a key that the topic lacks.
        others = ["F append 50" if verb == "append" else _of_foreign(chance, case, verb) for verb in verbs]
        return f" @{chance.randint(1, _LATEST_CALL)} {'; '.join(others)}"
    return ""
