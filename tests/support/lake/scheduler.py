"""Runs sinks, their maintenance, and foreign writers over a fake table, step by step, and checks everything after each step.

A *step* is a text such as ``A commit``. ``A``, ``B``, and ``C`` are sinks, ``F`` is a foreign writer, ``O`` an operator:

- ``A open [partitions]``, ``A put n``, ``A take n`` (both, with all partitions), ``A commit``, ``A maintain``,
  ``A close [partitions]``, ``A kill``
- ``F append id``, ``F delete id``, ``F rewrite``, ``F back n``, ``F clean``, ``F column``; of Iceberg ``F branch``,
  ``F expire``
- ``O reset`` sets the sink's offsets to what the table contains, as the message of a sink that refuses its table says

A step that ends with ``!7 before`` has its seventh call to the storage or the library fail before it takes effect; ``after``: it
takes effect, and the answer is lost; ``conflict``: it takes effect, and is reported as a conflict. ``@7 B open; B commit`` at the
end: just before that call, others act. So a frozen task is one that has put records, while the steps of others follow, or are at
one of its calls.

After each step, each new version of the table must contain what its parent contained and the records by which it moves the
sink's offsets, or what its foreign writer did; and what each task believes must be true of the version in which it believes
(:mod:`tests.support.lake.checks`). In the end, all sinks close, a new one delivers the rest, and the table must have all records.

**A failing program** is printed with the step at which it failed and what was wrong. Replay it with the line that follows, in a
test or a shell (``export PYTHONPATH=$PWD``)::

    from tests.support.lake.scheduler import Case, replay
    replay(Case("delta", "upsert", "c1 u1 u1"), "A open", "A put 2", "A commit !3 after", ...)

``shorten`` leaves out steps as long as the program still fails.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from tests.support.lake.calls import Call, Calls
from tests.support.lake.checks import Finding, TableChecks, check_belief
from tests.support.lake.delta import DeltaLake
from tests.support.lake.iceberg import IcebergLake
from tests.support.lake.lakes import Lake
from tests.support.lake.model import TOPIC, Topic, settings_of
from tests.support.lake.sinks import Sink

_LAKES: Mapping[str, type[Lake]] = {"delta": DeltaLake, "iceberg": IcebergLake}
_STEP = re.compile(
    r"(?P<actor>[A-Z]) (?P<verb>[a-z]+)(?P<arguments>( \d+)*)( !(?P<fails>\d+) (?P<kind>\w+)| @(?P<at>\d+) (?P<others>.+))?"
)
_SINKS = "ABC"
_ROUNDS = 4
"""How often the last sink tries to deliver what is left."""


@dataclass(frozen=True, slots=True)
class Case:
    """A table of a format and mode (:mod:`tests.support.lake.model`), and the records of its topic."""

    format: str
    mode: str
    topic: str

    def __str__(self) -> str:
        return f'Case("{self.format}", "{self.mode}", "{self.topic}")'


@dataclass(slots=True)
class Run:
    """What a program did: by step, its calls."""

    calls: list[list[Call]] = field(default_factory=list)


class World:
    """One table with everyone who uses it."""

    def __init__(self, case: Case) -> None:
        self.topic = Topic(case.topic)
        self.calls = Calls()
        self.lake = _LAKES[case.format](case.mode)
        self.checks = TableChecks(self.lake, self.topic)
        self.group: dict[TopicPartition, int] = {}
        self.sinks = {name: Sink(self.lake, self.topic, self.calls, self.group) for name in _SINKS}
        self._found: Finding | None = None
        self.checks.check()

    def step(self, text: str) -> list[Call]:
        """Takes one step, and checks everything. Returns its calls. Raises Finding."""
        found = _STEP.fullmatch(text)
        assert found is not None, text
        at, what = int(found["fails"] or found["at"] or 0), found["kind"] or (lambda: self._others(found["others"].split("; ")))
        with self.calls.counted(at, what) as made:
            self._act(found["actor"], found["verb"], [int(number) for number in found["arguments"].split()])
        if self._found is not None:
            raise self._found
        self.check()
        return made

    def _others(self, steps: Sequence[str]) -> None:
        """What they find is raised after the step, because the sink in whose call they act would catch it."""
        for text in steps:
            actor, verb, *arguments = text.split()
            try:
                with self.calls.counted():
                    self._act(actor, verb, [int(number) for number in arguments])
            except Finding as e:
                self._found = self._found or e

    def check(self) -> None:
        self.checks.check()
        for name, sink in self.sinks.items():
            if sink.writer is None or (belief := self.lake.belief(sink.writer._table)) is None:
                continue
            try:
                check_belief(self.lake, belief)
            except Finding as e:
                raise Finding(f"{name}: {e}") from e

    def _act(self, actor: str, verb: str, arguments: Sequence[int]) -> None:
        if actor == "F":
            self._change(verb, *arguments)
        elif actor == "O":
            self._reset_offsets()
        else:
            self._use(self.sinks[actor], verb, arguments)

    def _change(self, verb: str, number: int = 0) -> None:
        match verb:
            case "append":
                self.lake.append(number)
            case "delete":
                self.lake.delete(number)
            case "rewrite":
                self.lake.rewrite()
            case "back":
                self.lake.go_back(number)
            case "clean":
                self.lake.clean()
            case "column":
                self.lake.add_column()
            case "branch" if isinstance(self.lake, IcebergLake):
                self.lake.commit_elsewhere()
            case "expire" if isinstance(self.lake, IcebergLake):
                self.lake.expire()
            case "branch" | "expire":
                return
            case _:
                raise ValueError(verb)

    def _use(self, sink: Sink, verb: str, arguments: Sequence[int]) -> None:
        partitions = [TopicPartition(TOPIC, number) for number in arguments] or list(self.topic.partitions)
        try:
            match verb:
                case "open":
                    sink.open(partitions)
                case "take":
                    sink.open(list(self.topic.partitions))
                    sink.put(arguments[0])
                case "put":
                    sink.put(arguments[0])
                case "close":
                    sink.close(partitions)
                case "commit" | "maintain" | "kill":
                    getattr(sink, verb)()
                case _:
                    raise ValueError(verb)
        except RetriableError:
            return
        except ConnectError as e:
            if not self.lake.is_moved:
                raise Finding(f"a task refuses a table whose history nobody has moved: {e}") from e

    def _reset_offsets(self) -> None:
        table = self.lake.open(settings_of(self.lake.mode), Calls())
        ends = self.checks.ends(self.lake.newest)
        self.lake.is_operated = True
        try:
            self.group |= {tp: ends.get(tp, 0) for tp in self.topic.partitions}
            table.move_offsets(dict(self.group))
        finally:
            self.lake.is_operated = False

    def settle(self) -> None:
        """Closes all sinks and has a new one deliver what is left. Raises Finding."""
        for name in _SINKS:
            self.step(f"{name} close")
        last = self.sinks["C"]
        for attempt in range(_ROUNDS):
            self.step("C open")
            if last.error is not None:
                if attempt:
                    raise Finding(f"a new task refuses the table after its offsets were set: {last.error}") from last.error
                self.step("O reset")
                continue
            for text in ("C put 1000", "C commit", "C maintain"):
                self.step(text)
            if last.has_all:
                break
        ends = self.checks.ends(self.lake.newest)
        lacking = [tp for tp, events in self.topic.partitions.items() if ends.get(tp, 0) != len(events)]
        if lacking or not last.has_all:
            raise Finding(f"the table lacks records of {lacking}: it has {ends}, and the last task {last.error or 'goes on'}")


def replay(case: Case, *steps: str, settles: bool = True) -> Run:
    """Runs a program. Raises Finding, which says at which step it failed and how to replay it."""
    world, run = World(case), Run()
    taken = []
    try:
        for text in steps:
            taken.append(text)
            run.calls.append(world.step(text))
        if settles:
            taken.append("the end")
            world.settle()
    except Exception as e:
        listed = ", ".join(f'"{text}"' for text in steps[: len(taken)])
        what = str(e) if isinstance(e, Finding) else f"{type(e).__name__}: {e}"
        raise Finding(f"step {len(taken)} ({taken[-1]}): {what}\n    replay({case}, {listed})") from e
    return run


def orders(*parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """All orders of the steps of several actors in which each actor's own steps keep theirs."""
    if not any(parts):
        yield ()
    for number, part in enumerate(parts):
        for rest in orders(*parts[:number], part[1:], *parts[number + 1 :]) if part else ():
            yield (part[0], *rest)


def faults(
    case: Case, steps: Sequence[str], kinds: Sequence[str] = ("before", "after"), first: int = 0
) -> Iterator[tuple[str, ...]]:
    """The program, with each call of each of its steps (from ``first`` on) failing once, in every way in which it can."""
    run = replay(case, *steps, settles=False)
    for at, calls in list(enumerate(run.calls))[first:]:
        for number, call in enumerate(calls, 1):
            for kind in call.kinds:
                if kind in kinds:
                    yield (*steps[:at], f"{steps[at]} !{number} {kind}", *steps[at + 1 :])


def freezes(
    case: Case, before: Sequence[str], frozen: str, others: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[str, ...]]:
    """The program in which others act in the middle of a step: at each of its calls."""
    count = len(replay(case, *before, frozen, settles=False).calls[-1])
    for number in range(1, count + 1):
        yield (*before, f"{frozen} @{number} {'; '.join(others)}", *after)


def failure(case: Case, steps: Sequence[str]) -> Finding | None:
    """What a program finds; None if all is well."""
    try:
        replay(case, *steps)
    except Finding as e:
        return e
    return None


def shorten(case: Case, steps: Sequence[str], tries: int = 200) -> Finding | None:
    """The finding of a program without the steps that it does not need."""
    found, left = failure(case, steps), list(steps)
    at = 0
    while found is not None and at < len(left) and tries:
        tries -= 1
        fewer = left[:at] + left[at + 1 :]
        again = failure(case, fewer)
        if again is None:
            at += 1
        else:
            found, left = again, fewer
    return found
