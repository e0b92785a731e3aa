"""The tables of docs/compatibility.md say what the classes do."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.errors import DataError

PAGE = (Path(__file__).parents[3] / "docs" / "compatibility.md").read_text("utf-8")


def _rows(mark: str) -> list[tuple[str, str, str]]:
    table = PAGE.split(f"<!-- {mark}:")[1].split("\n\n")[0].splitlines()[3:]
    rows = [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in table]
    return [(row[0], row[1], row[2]) for row in rows]


@pytest.mark.parametrize(("type_name", "payload", "value"), _rows("json"))
def test_json_converter_reads_as_documented(type_name: str, payload: str, value: str) -> None:
    converter = JsonConverter()
    converter.configure({}, False)
    message = f'{{"schema":{json.dumps({"type": type_name, "optional": True})},"payload":{payload}}}'
    assert repr(converter.to_connect_data("t", message.encode()).value) == value


def _strict_column() -> dict[str, str]:
    table = PAGE.split("<!-- header:")[1].split("\n\n")[0].splitlines()[3:]
    rows = [[cell.strip().strip("`") for cell in line.strip().removesuffix("|").split("|")[1:]] for line in table]
    return {row[0]: row[3] for row in rows}


@pytest.mark.parametrize(("text", "strict"), _strict_column().items())
def test_simple_header_converter_rejects_as_documented(text: str, strict: str) -> None:
    converter = SimpleHeaderConverter()
    converter.configure({"conversion.strict": "true"})
    if strict == "error":
        with pytest.raises(DataError, match="cannot be read without loss"):
            converter.to_connect_header("t", "h", text.encode())
    else:
        assert strict == ""
        assert converter.to_connect_header("t", "h", text.encode()).schema is not None


@pytest.mark.parametrize(("text", "type_name", "value"), _rows("header"))
def test_simple_header_converter_reads_as_documented(text: str, type_name: str, value: str) -> None:
    found = SimpleHeaderConverter().to_connect_header("t", "h", text.encode())
    assert found.schema is not None
    assert (found.schema.type.name, repr(found.value)) == (type_name, value)


def test_both_tables_are_in_the_page() -> None:
    assert len(_rows("json")) > 8
    assert len(_rows("header")) > 6
    assert re.search(r"modulo 2\^64 \(`18446744073709551616` is 0\)", PAGE)


@pytest.mark.parametrize(("message", "value"), [(b"18446744073709551616", 0), (b"1.10", 1.1), (b"1 trailing", 1)])
def test_json_without_schemas(message: bytes, value: object) -> None:
    converter = JsonConverter()
    converter.configure({"schemas.enable": "false"}, False)
    assert converter.to_connect_data("t", message).value == value
