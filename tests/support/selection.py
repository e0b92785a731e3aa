"""Which tests run, in which order, with which seed.

- ``pytest`` runs all tests that are not marked ``long``: those of ``make test``.
- ``pytest --all`` runs every test, with the files shuffled by the seed: ``make test-all``.
- ``pytest --share=N`` runs one part of the long tests. As many consecutive numbers as there are parts cover all of them. By the
  seconds in tests/seconds.json, a part takes at most `SHARE_S`; a file that is not there yet is in every part.
- A test that is named on the command line runs in any case.

``--record-seconds`` stores in tests/seconds.json how long the tests of each file took, for the order, the shares, and the check
of the budgets per folder (scripts/check_test_seconds.py).
"""

from __future__ import annotations

import itertools
import json
import math
import random
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.randomness import SEED, replay_variables

SECONDS_FILE = Path(__file__).parents[1] / "seconds.json"
SHARE_S = 30 * 60
"""Seconds of tests in a share: 2,430 seconds took four processes on two cores 27 minutes."""

Seconds = Mapping[str, Mapping[str, float]]
"""By file: the seconds of its fast and of its long tests."""

_FAST, _LONG = "fast", "long"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("selection of tests")
    group.addoption("--all", action="store_true", help="run long tests, too, in an order of files that the seed decides")
    group.addoption("--share", type=int, metavar="N", help="run a part of the long tests; consecutive numbers cover all")
    group.addoption("--record-seconds", action="store_true", help=f"store the seconds of each file in tests/{SECONDS_FILE.name}")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.record_seconds and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.rootpath, every_test=config.option.all), "seconds-recorder")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = {item for item in items if _is_chosen(config, item)}
    if config.option.share is not None:
        seconds = _read_seconds()
        parts = split_into_shares(seconds)
        others = set().union(*parts) - parts[config.option.share % len(parts)]
        chosen = {item for item in items if _is_long(item) and _file_of(item) not in others}
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    by_file: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item in chosen:
            by_file[_file_of(item)].append(item)
    items[:] = [item for file in _order(config, list(by_file)) for item in by_file[file]]


def _is_chosen(config: pytest.Config, item: pytest.Item) -> bool:
    if config.option.all or not _is_long(item):
        return True
    return any("::" in argument and item.nodeid.startswith(argument.split("[")[0]) for argument in config.args)


def _is_long(item: pytest.Item) -> bool:
    return item.get_closest_marker(_LONG) is not None


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.split("::")[0]


def _order(config: pytest.Config, files: list[str]) -> list[str]:
    """The longest first, so that no process ends long after the others, and unit tests, which need the processor, beside those
    that wait for services; shuffled if all run, because no test may need another."""
    if config.option.all:
        random.Random(SEED).shuffle(files)
        return files
    known, kind = _read_seconds(), _FAST if config.option.share is None else _LONG
    seconds = {
        file: known.get(file, {}).get(kind, 0.0) for file in sorted(files, key=lambda file: -known.get(file, {}).get(kind, 0.0))
    }
    units = [file for file in seconds if file.startswith("tests/unit/")]
    others = [file for file in seconds if not file.startswith("tests/unit/")]
    return [file for _, file in sorted([*_ends(units, seconds), *_ends(others, seconds)])]


def _ends(files: Sequence[str], seconds: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """By file: the part of the seconds of all that has passed after it."""
    total = sum(seconds[file] for file in files) or 1.0
    return zip(itertools.accumulate(seconds[file] / total for file in files), files, strict=True)


def split_into_shares(seconds: Seconds) -> list[set[str]]:
    """Divides the files with long tests into as few parts as possible, of about the same length."""
    taken = {file: kinds[_LONG] for file, kinds in seconds.items() if _LONG in kinds}
    totals = [0.0] * max(1, math.ceil(sum(taken.values()) / SHARE_S))
    parts: list[set[str]] = [set() for _ in totals]
    # Totals are kept, because a sum over a set depends on its order, and each process has another one.
    for file in sorted(taken, key=lambda file: (-taken[file], file)):
        shortest = totals.index(min(totals))
        parts[shortest].add(file)
        totals[shortest] += taken[file]
    return parts


def _read_seconds() -> Seconds:
    try:
        found: Seconds = json.loads(SECONDS_FILE.read_text())
    except FileNotFoundError:
        return {}
    return found


def pytest_report_header(config: pytest.Config) -> str:
    which = "every test" if config.option.all else "all tests that are not long"
    if config.option.share is not None:
        parts = split_into_shares(_read_seconds())
        number = config.option.share % len(parts)
        which = f"share {number + 1} of {len(parts)} of the long tests, in {len(parts[number])} files"
    return f"selection: {which}; {_replay()}"


def _replay() -> str:
    return " ".join(f"{name}={value}" for name, value in replay_variables().items())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.append(("Replay", f"{_replay()} python -m pytest '{report.nodeid}'"))
    return report


class _Recorder:
    """Adds up the seconds of each file, in the process that gets all reports."""

    def __init__(self, root: Path, *, every_test: bool) -> None:
        self._root = root
        self._every_test = every_test
        self._found: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        kind = _LONG if _LONG in report.keywords else _FAST
        self._found[report.nodeid.split("::")[0]][kind] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Replaces the seconds of the tests that ran, and drops files that are gone.

        Where every test ran, a file whose tests have all become long has no seconds of fast ones anymore.
        """
        known = {file: dict(kinds) for file, kinds in _read_seconds().items() if (self._root / file).exists()}
        for file, kinds in self._found.items():
            earlier = {} if self._every_test else known.get(file, {})
            known[file] = {**earlier, **{kind: round(value, 1) for kind, value in kinds.items()}}
        lines = [f"{json.dumps(file)}: {json.dumps(kinds, sort_keys=True)}" for file, kinds in sorted(_worth_storing(known))]
        SECONDS_FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _worth_storing(seconds: Seconds) -> Iterator[tuple[str, Mapping[str, float]]]:
    for file, kinds in seconds.items():
        if _LONG in kinds or kinds[_FAST] >= 0.1:
            yield file, kinds
