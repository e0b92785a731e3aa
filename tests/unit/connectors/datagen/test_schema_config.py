"""Which records are generated: exactly one of quickstart, schema.filename, and schema.string."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from connect.errors import ConfigError
from connectors.datagen import DatagenSource

SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "shop.item",
        "fields": [{"name": "number", "type": {"type": "int", "arg.properties": {"iteration": {"start": 1}}}}],
    }
)
ONE_SOURCE = "Must set exactly one of schema.string, schema.filename, quickstart"


def errors_of(config: dict[str, str]) -> dict[str, list[str]]:
    """Returns the errors by key, after checking that ``start`` agrees."""
    found = {value.name: value.errors for value in DatagenSource().validate({"kafka.topic": "t", **config}) if value.errors}
    if found:
        with pytest.raises(ConfigError):
            DatagenSource().start({"kafka.topic": "t", **config})
    else:
        DatagenSource().start({"kafka.topic": "t", **config})
    return found


def test_a_schema_is_read_from_the_config_or_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "item.avsc"
    path.write_text(SCHEMA)
    for source in ({"schema.string": SCHEMA}, {"schema.filename": str(path)}, {"schema.filename": str(path), "quickstart": ""}):
        config = {"kafka.topic": "t", "schema.keyfield": "number", **source}
        assert errors_of(config) == {}
        first, second = DatagenSource().sample_records(config, 2)
        assert (first.key, second.key) == (1, 2)
        assert first.value_schema is not None
        assert first.value_schema.name == "shop.item"
    (record,) = DatagenSource().sample_records({"kafka.topic": "t", "schema.string": SCHEMA}, 1)
    assert (record.key, record.key_schema) == (None, None)


def test_no_schema_is_an_error_of_each_key_and_two_of_the_given_ones() -> None:
    assert errors_of({}) == {key: [ONE_SOURCE] for key in ("quickstart", "schema.filename", "schema.string")}
    both = {"quickstart": "users", "schema.string": SCHEMA}
    assert errors_of(both) == {key: [ONE_SOURCE] for key in both}


@pytest.mark.parametrize(
    ("config", "key", "messages"),
    [
        ({"quickstart": "pageview"}, "quickstart", ["value pageview", "one of campaign_finance", "did you mean pageviews?"]),
        ({"schema.filename": "/no/such/file.avsc"}, "schema.filename", ["/no/such/file.avsc", "No such file", "on every worker"]),
        ({"schema.string": "{"}, "schema.string", ["no JSON"]),
        ({"schema.string": SCHEMA, "schema.keyfield": "numbr"}, "schema.keyfield", ["numbr", "shop.item", "mean number?"]),
        ({"quickstart": "users", "schema.keyfield": "id"}, "schema.keyfield", ["ksql.users", "registertime, userid"]),
    ],
)  # fmt: skip
def test_errors_name_key_value_and_remedy(config: dict[str, str], key: str, messages: list[str]) -> None:
    found = errors_of(config)
    assert list(found) == [key]
    for message in messages:
        assert message in found[key][0]


def test_files_are_refused_that_are_no_schema(tmp_path: Path) -> None:
    path = tmp_path / "schema.avsc"
    path.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in errors_of({"schema.filename": str(path)})["schema.filename"][0]
    path.write_text("no schema")
    assert "no JSON" in errors_of({"schema.filename": str(path)})["schema.filename"][0]
    assert "expected a file" in errors_of({"schema.filename": str(tmp_path)})["schema.filename"][0]


def test_lint_does_not_open_the_file() -> None:
    values = DatagenSource().check_config({"kafka.topic": "t", "schema.filename": "/no/such/file.avsc"})
    assert not any(value.errors for value in values)
