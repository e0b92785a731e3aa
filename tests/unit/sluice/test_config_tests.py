"""``sluice test``: which files are taken, what is wrong with them, and that documented files run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run

ROOT = Path(__file__).parents[3]
BLOCK = re.compile(r"^```\w+ file=(\S+)\n(.*?)^```$", re.M | re.S)
CONNECTOR = "name=a\nconnector.class=FileStreamSource\ntopic=t\n"


def _sluice(*words: object) -> int:
    return run(build(COMMANDS), [str(word) for word in words])


def test_config_tests_of_configs_pass() -> None:
    assert _sluice("test", ROOT / "configs") == 0


def test_example_in_the_docs_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, text in BLOCK.findall((ROOT / "docs" / "config-tests.md").read_text("utf-8")):
        (tmp_path / name).write_text(text)
    shutil.copy(ROOT / "configs" / "connect-standalone.properties", tmp_path)
    assert _sluice("test", tmp_path) == 0, capsys.readouterr().out
    assert capsys.readouterr().out.splitlines()[-1] == "5 passed, 0 failed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tests: [", "1: not YAML"),
        ("- a", "1: a test file must be a mapping"),
        ("tests: []", "1: tests must be a list of at least one test"),
        ("test:\n  - {}", "1: A test file has no member test. Did you mean tests?"),
        ("lint: spotless", "1: lint is 'spotless'; expected clean or no errors"),
        ("config: other.properties\ntests:\n  - {input: 1, expect: {value: 1}}", "other.properties: cannot read the file"),
        ("tests:\n  - 5", "test 1 must be a mapping"),
        ("tests:\n  - {name: x, input: 1}", "2: a test needs expect"),
        ("tests:\n  - {expect: {value: 1}}", "2: a test needs either input or raw"),
        ("tests:\n  - {input: [1, 2], expect: {value: 1}}", "2: 2 inputs and 1 expectations"),
        ("tests:\n  - {input: [], expect: []}", "2: 0 inputs"),
        ("tests:\n  - input: 1\n    expect: {}", "2: expect must be a mapping with some of"),
        ("tests:\n  - input: 1\n    expect:\n      valeu: 1", "4: An expectation has no member valeu. Did you mean value?"),
        ("tests:\n  - input: 1\n    expect: {dropped: false}", "3: dropped must be true if present"),
        ("tests:\n  - input: 1\n    expect: {dropped: true, value: 1}", "3: dropped and error cannot be combined"),
        ("tests:\n  - input: 1\n    expect: {fields: [value]}", "3: fields must be a mapping"),
        ("tests:\n  - input: 1\n    expect: {error: ''}", "3: error must be a part of the error message"),
        ("tests:\n  - input: 1\n    input: 2\n    expect: {value: 1}", "line 3: duplicate member input"),
        ("tests:\n  - {raw: {vale: x}, expect: {value: 1}}", "2: A raw message has no member vale. Did you mean value?"),
        ("tests:\n  - {input: 1, config: [a], expect: {value: 1}}", "2: config must be a mapping"),
        ("tests:\n  - {raw: x, expect: {value: 1}}", "2: No key.converter is set"),
        (
            "tests:\n  - {raw: {value: {base64: '!'}}, config: {key.converter: Json, value.converter: Json}, expect: {value: 1}}",
            "2: '!' is not base64",
        ),
    ],
)
def test_invalid_file_is_bad_usage_with_the_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    (tmp_path / "a.properties").write_text(CONNECTOR)
    (tmp_path / "a.test.yaml").write_text(text)
    assert _sluice("test", tmp_path) == 2
    assert message in capsys.readouterr().err


def test_test_file_without_connector_file_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.test.yaml").write_text("tests:\n  - {input: 1, expect: {value: 1}}")
    assert _sluice("test", tmp_path) == 2
    assert "there is no a.properties or a.json next to it" in capsys.readouterr().err


def test_connector_file_is_rejected_with_a_hint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.properties").write_text(CONNECTOR)
    (tmp_path / "a.test.yaml").write_text("tests:\n  - {input: 1, expect: {value: 1}}")
    assert _sluice("test", tmp_path / "a.properties") == 2
    assert f"Did you mean {tmp_path / 'a.test.yaml'}?" in capsys.readouterr().err
    assert _sluice("test", tmp_path / "a.test.yaml") == 0


def test_directory_without_tests_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _sluice("test", tmp_path) == 2
    assert "No file *.test.yaml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("expected", "passes"),
    [
        ("1", True),
        ("1.0", False),
        ("true", False),
        ('"1"', False),
        ("null", False),
    ],
)
def test_numbers_text_and_booleans_differ(tmp_path: Path, expected: str, passes: bool) -> None:
    (tmp_path / "a.properties").write_text(CONNECTOR)
    (tmp_path / "a.test.yaml").write_text(f"tests:\n  - input: {{n: 1}}\n    expect: {{value: {{n: {expected}}}}}")
    assert _sluice("test", tmp_path) == (0 if passes else 1)


def test_typed_values_of_schemas_are_compared_in_plain_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(json.dumps({"connector.class": "FileStreamSource", "topic": "t"}))
    (tmp_path / "a.test.yaml").write_text(
        """
tests:
  - input:
      value:
        schema:
          type: struct
          optional: false
          fields:
            - {field: price, type: bytes, optional: false, name: org.apache.kafka.connect.data.Decimal, parameters: {scale: "2"}}
            - {field: day, type: int32, optional: false, name: org.apache.kafka.connect.data.Date}
            - {field: at, type: int64, optional: false, name: org.apache.kafka.connect.data.Timestamp}
            - {field: raw, type: bytes, optional: false}
        payload: {price: "AMg=", day: 1, at: 1000, raw: "AQI="}
      headers: {h: 1}
    expect:
      value: {price: "2.00", day: 1970-01-02, at: 1970-01-01T00:00:01Z, raw: AQI=}
      headers: {h: 1}
"""
    )
    assert _sluice("test", tmp_path) == 0, capsys.readouterr().out
