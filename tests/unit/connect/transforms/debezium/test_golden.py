"""Golden cases: ``golden/*.jsonl``, one case a line, each with what Debezium's own class made of the record.

``class`` and ``config`` as in a connector's configuration, ``input`` a record in the format of connect/record_format.py.
``expected`` is null for a dropped record, the members that differ from those of the input (none for a record that passes), or the
original's exception as ``{"error", "stage"}``. A case is added there, without touching this module.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError, DataError, SchemaError
from connect.plugins import Plugins
from connect.record import ConnectRecord
from connect.record_format import record_from_json, record_to_json

_ERRORS = {"ConfigException": ConfigError, "DataException": DataError, "SchemaBuilderException": SchemaError}
_CASES = [
    pytest.param(json.loads(line), id=f"{path.stem} line {number}")
    for path in sorted((Path(__file__).parent / "golden").glob("*.jsonl"))
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
]


@pytest.fixture(scope="module")
def plugins() -> Plugins:
    return Plugins.discover()


def _outcome(case: dict[str, Any], given: ConnectRecord, plugins: Plugins) -> tuple[str, Any]:
    """The stage that was reached, and the record, null or the error."""
    stage = "configure"
    try:
        transformation = plugins.new_transformation(case["class"])
        transformation.configure(case["config"])
        stage = "apply"
        return stage, transformation.apply(given)
    except ConnectError as e:
        return stage, e


@pytest.mark.parametrize("case", _CASES)
def test_result_is_the_same_as_from_debezium(case: dict[str, Any], plugins: Plugins) -> None:
    expected, given = case["expected"], record_from_json(case["input"])
    before = record_to_json(given)
    stage, outcome = _outcome(case, given, plugins)
    if expected is not None and "error" in expected:
        assert isinstance(outcome, _ERRORS.get(expected["error"], ConnectError)), outcome
        assert stage == expected["stage"]
        return
    assert record_to_json(given) == before, "the record that came in was changed"
    if expected is None or not isinstance(outcome, ConnectRecord):
        assert outcome is expected
    else:
        assert record_to_json(outcome) == {**case["input"], **expected}


def test_golden_files_have_cases() -> None:
    assert len(_CASES) > 200
