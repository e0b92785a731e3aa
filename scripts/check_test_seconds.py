"""Checks that ``make test`` stays fast: the seconds of the fast tests of each folder against its budget.

The seconds are in tests/seconds.json, where ``make test-seconds`` stores those of a run. Budgets are in pyproject.toml, by
folder; a file belongs to the longest folder that contains it. They are seconds of tests, which several processes share.

Usage: ``python scripts/check_test_seconds.py [FOLDER]``; prints all findings and exits 1 if there are any.
"""

from __future__ import annotations

import json
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

Seconds = Mapping[str, Mapping[str, float]]
"""By file: the seconds of its tests that are ``fast`` and of those that are ``long``."""


def findings(seconds: Seconds, budgets: Mapping[str, float]) -> Iterator[str]:
    """Yields the folders that exceed their budget, with their slowest files, and the files without a budget."""
    files: dict[str, dict[str, float]] = defaultdict(dict)
    for file, kinds in seconds.items():
        inside = [folder for folder in budgets if PurePosixPath(file).is_relative_to(folder)]
        if not inside:
            yield f"{file} is in no folder with a budget; add one to [tool.sluice.test-seconds] in pyproject.toml"
            continue
        files[max(inside, key=len)][file] = kinds.get("fast", 0.0)
    for folder, taken in sorted(files.items()):
        total = sum(taken.values())
        if total > budgets[folder]:
            slowest = sorted(taken, key=lambda file: -taken[file])[:5]
            listed = ", ".join(f"{PurePosixPath(file).relative_to(folder)} {taken[file]:.0f}" for file in slowest)
            yield (
                f"the fast tests of {folder} take {total:.0f} s, but its budget is {budgets[folder]:g} s: make tests faster, or "
                f"mark those long whose behavior another test proves, too. Slowest: {listed}"
            )


def main(root: Path) -> int:
    """Prints all findings and returns the exit code."""
    seconds = json.loads((root / "tests" / "seconds.json").read_text(encoding="utf-8"))
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    found = list(findings(seconds, settings["tool"]["sluice"]["test-seconds"]))
    for finding in found:
        print(finding)
    print(f"{len(found)} findings" if found else "No findings", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()))
