"""Runs test vectors against the product: ``python tests/conformance/run.py FILE.jsonl...``.

Each line of a file is one case, and its members tell its kind. For every failing case one line with its id, what was expected
and what came is printed; then ``N passed, M failed``; the exit code is 1 if any failed. A new kind is a module beside this one
with ``matches(case)`` and ``run(case) -> (expected, actual)``, equal when the case passes, and a line in ``KINDS``.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.conformance import converters_kind, projector_kind, transforms_kind, validate_kind, values_kind


class Kind(Protocol):
    """Recognizes and runs the cases of one kind."""

    def matches(self, case: dict[str, Any]) -> bool: ...

    def run(self, case: dict[str, Any]) -> tuple[Any, Any]:
        """Returns the expected and the actual result, equal if the case passes."""


KINDS: tuple[Kind, ...] = (converters_kind, projector_kind, transforms_kind, validate_kind, values_kind)


def run_case(case: dict[str, Any]) -> tuple[Any, Any] | None:
    """Returns the expected and the actual result of a case; None if no kind matches it."""
    for kind in KINDS:
        if kind.matches(case):
            try:
                return kind.run(case)
            except Exception as e:
                return case.get("expected"), f"{type(e).__name__}: {e}"
    return None


def main(paths: list[str]) -> int:
    results: Counter[str] = Counter()
    for path in paths:
        with open(path, encoding="utf-8") as lines:
            for line in lines:
                case = json.loads(line)
                result = run_case(case)
                if result is None:
                    results["unknown"] += 1
                elif result[0] == result[1]:
                    results["passed"] += 1
                else:
                    results["failed"] += 1
                    print(f"{case['id']}\n  expected {_text(result[0])}\n  actual   {_text(result[1])}")
    if results["unknown"]:
        print(f"{results['unknown']} cases of kinds that are not run", file=sys.stderr)
    print(f"{results['passed']} passed, {results['failed']} failed")
    return 1 if results["failed"] else 0


def _text(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=repr)
    return text if len(text) <= 600 else text[:597] + "..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
