"""Golden cases: ``golden/*.jsonl``, one case a line. A case is added there, without touching this module.

``class`` and ``config`` as in a connector's configuration, ``input`` and ``expected`` records in the format of
connect/record_format.py; ``expected`` is null for a dropped record, or ``{"error": {"class", "message"}}``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConnectError
from connect.plugins import Plugins
from connect.record_format import record_from_json, record_to_json

_CASES = [
    pytest.param(case, id=f"{path.stem}: {case['name']}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.jsonl"))
    for case in map(json.loads, path.read_text(encoding="utf-8").splitlines())
]


def _transform(case: dict[str, Any]) -> Any:
    try:
        transformation = Plugins.discover().new_transformation(case["class"])
        transformation.configure(case["config"])
        record = record_from_json(case["input"])
        result = transformation.apply(record)
    except ConnectError as e:
        return {"error": {"class": type(e).__name__, "message": e.message}}
    assert record_to_json(record) == case["input"], "the record that came in was changed"
    return None if result is None else record_to_json(result)


@pytest.mark.parametrize("case", _CASES)
def test_result_is_as_expected(case: dict[str, Any]) -> None:
    assert _transform(case) == case["expected"]
