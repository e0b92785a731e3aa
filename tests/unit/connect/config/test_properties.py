"""Properties files: what Java reads, with the line of every entry."""

from __future__ import annotations

from pathlib import Path

import javaproperties
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.connector_file import read_connector_file
from connect.config.properties import parse_properties, read_properties, write_properties
from connect.errors import ConfigError

texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(texts, texts, max_size=8))
def test_what_is_written_reads_back(values: dict[str, str]) -> None:
    assert dict(parse_properties(write_properties(values), "f")) == values
    assert dict(parse_properties(javaproperties.dumps(values), "f")) == values


@given(st.lists(st.tuples(texts, texts), max_size=8))
def test_lines_are_those_of_the_text(pairs: list[tuple[str, str]]) -> None:
    text = "# head\n\n" + "".join(f"{javaproperties.join_key_value(key, value)}\n" for key, value in pairs)
    entries = parse_properties(text, "f").entries
    assert [(entry.key, entry.value, entry.line) for entry in entries] == [(k, v, 3 + i) for i, (k, v) in enumerate(pairs)]


@given(st.text(max_size=60))
def test_any_text_is_read_or_rejected_with_its_line(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^f:"):
        raise refusal_of(text) or ConfigError("f: was read")


def refusal_of(text: str) -> ConfigError | None:
    try:
        parse_properties(text, "f")
    except ConfigError as e:
        return e
    return None


def test_entry_over_several_lines_has_its_first_line() -> None:
    properties = parse_properties("# c\r\na=1\\\n  2\n\nb : x\\u00e9\rb=3\n! end\n", "f.properties")
    assert dict(properties) == {"a": "12", "b": "3"}
    assert [entry.line for entry in properties.entries] == [2, 5, 6]
    assert properties.location("b") == "f.properties:6"
    assert properties.location("none") == "f.properties"
    [(first, second)] = properties.duplicates()
    assert (first.line, second.line) == (5, 6)


def test_malformed_escape_is_an_error_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_text("a=1\nb=x\\\n  y\\u12\n")
    with pytest.raises(ConfigError) as caught:
        read_properties(file)
    assert caught.value.message == f"{file}:3: malformed escape \\u12: \\u takes four hexadecimal digits"


def test_utf_8_is_detected_and_other_bytes_are_latin_1(tmp_path: Path) -> None:
    file = tmp_path / "w.properties"
    file.write_bytes("a=é".encode())
    assert read_properties(file)["a"] == "é"
    file.write_bytes("a=é".encode("latin-1"))
    properties = read_properties(file)
    assert (properties["a"], properties.encoding) == ("é", "iso-8859-1")


def test_a_file_that_cannot_be_read_is_a_config_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        read_properties(tmp_path / "none")
    with pytest.raises(ConfigError, match="directory"):
        read_connector_file(tmp_path)


def test_values_are_not_shown_by_repr() -> None:
    assert "secret" not in repr(parse_properties("password=secret", "f"))


def test_three_formats_of_connector_files(tmp_path: Path) -> None:
    forms = {
        "c.properties": "name=n\ntasks.max=1\n",
        "flat.json": '{"name": "n",\n "tasks.max": 1}',
        "request.json": '{"name": "n", "initial_state": "paused",\n\n "config": {"tasks.max": "1"}}',
    }
    for name, text in forms.items():
        (tmp_path / name).write_text(text)
        file = read_connector_file(tmp_path / name)
        assert (file.name, dict(file.config)) == ("n", {"name": "n", "tasks.max": "1"})
    assert file.initial_state == "PAUSED"
    assert file.location("tasks.max") == f"{tmp_path / 'request.json'}:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a=1", "is missing the mandatory 'name' configuration"),
        ('{"name": ""}', "is missing the mandatory 'name' configuration"),
        ('{"name": "n",\n}', ":2: not JSON at column 1"),
        ('{"name": "n", "config": {"name": "m"}}', "doesn't match the one specified in 'name'"),
        ('{"name": "n",\n"config": {"a": [1]}}', ":2: Value of a is a list"),
        ('{"name": "n", "config": {}, "initial_state": "ASLEEP"}', "expected one of RUNNING, PAUSED, STOPPED"),
        ('{"name": ' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_invalid_connector_file_is_reported_with_location(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "c.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        read_connector_file(file)
    assert message in caught.value.message
    assert str(file) in caught.value.message


def test_numbers_keep_their_text_and_null_remains(tmp_path: Path) -> None:
    file = tmp_path / "c.json"
    file.write_text('{"name": "n", "config": {"a": 1.50, "b": true, "c": null, "d": 12345678901234567890}}')
    config = {"name": "n", "a": "1.50", "b": "true", "c": None, "d": "12345678901234567890"}
    assert dict(read_connector_file(file).config) == config
