"""Previews: what is a record and what a plain value, names of errors, converters, changes; and cases of the original."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from connect.config.connector_file import parse_connector_file
from connect.errors import ConfigError, ConnectError, DataError, SchemaError
from connect.plugins import Plugins
from connect.record import SinkRecord, SourceRecord
from worker.preview.conversion import Message, PreviewConverters
from worker.preview.errors import PreviewFailure, build_failure
from worker.preview.plan import PreviewPlan
from worker.preview.record_diff import diff_records, flatten_record
from worker.preview.record_lines import RecordDefaults, is_record, parse_record_line

PLACE = RecordDefaults("t", is_sink=False)
PLUGINS = Plugins.discover()


@pytest.mark.parametrize(
    "node",
    [
        {"topic": "t", "value": None},
        {"topic": "t", "key": {"schema": None, "payload": 1}},
        {"topic": None, "value": {"payload": 1}},
        {"topic": "t", "partition": 1, "value": {"schema": {"type": "string"}, "payload": "x"}, "other": 1},
    ],
)
def test_records(node: Any) -> None:
    assert is_record(node)


@pytest.mark.parametrize(
    "node",
    [1, "x", None, [], {}, {"value": 1}, {"topic": "news"}, {"topic": "news", "value": 5}, {"topic": "t", "value": {"id": 1}}],
)
def test_plain_values(node: Any) -> None:
    assert not is_record(node)
    record = parse_record_line(json.dumps(node), PLACE, 3)
    assert isinstance(record, SourceRecord)
    assert (record.topic, record.value, record.value_schema) == ("t", node, None)


def test_a_plain_value_of_a_sink_lies_in_its_topic() -> None:
    record = parse_record_line("5", RecordDefaults("t", is_sink=True), 3)
    assert isinstance(record, SinkRecord)
    assert (record.topic, record.offset, record.value) == ("t", 3, 5)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON at column 2"),
        ("[" * 100_000, "nested too deeply"),
        ('{"topic":"t","partition":0,"headers":[],"value":5}', "its value is neither null nor an object of schema and payload"),
        ('{"topic":"t","partition":0,"headers":[],"timestamp":1}', "neither key nor value"),
        ('{"topic":"t","value":{"schema":{"type":"nope"},"payload":1}}', "is not a schema"),
        ('{"topic":"t","value":{"schema":{"type":"int32"},"payload":"x"}}', 'Payload "x" is not a INT32'),
        ('{"topic":"t","value":{"schema":{"type":"int8"},"payload":300}}', "Payload 300 is not a INT8"),
        ('{"topic":"t","value":{"schema":{"type":"boolean"},"payload":1}}', "Payload 1 is not a BOOLEAN"),
        ('{"topic":"t","value":{"schema":{"type":"int32"},"payload":true}}', "Payload true is not a INT32"),
        ('{"topic":"t","value":null,"offset":1}', "member 'partition' is missing"),
        ('{"topic":"t","value":null,"headers":5}', "not a record"),
        ('{"topic":"t","value":{"schema":null,"payload":{"$t":"decimal"}}}', "member 'v' is missing"),
    ],
)
def test_a_line_that_is_no_record_says_why(line: str, message: str) -> None:
    with pytest.raises(DataError, match=message.replace("(", r"\(")):
        parse_record_line(line, PLACE, 0)


@pytest.mark.parametrize(
    ("error", "java_class"),
    [
        (DataError("Field does not exist: f"), "DataException"),
        (SchemaError("Cannot create field"), "SchemaBuilderException"),
        (ConfigError("wrong"), "ConfigException"),
        (ConnectError("failed"), "ConnectException"),
        (DataError("Unknown field: f"), "IllegalArgumentException"),
        (DataError("No group with name {x}"), "IllegalArgumentException"),
        (DataError("No group 2"), "IndexOutOfBoundsException"),
        (ValueError("a function of a user"), "ConnectException"),
    ],
)
def test_errors_have_the_simple_name_of_javas_class(error: Exception, java_class: str) -> None:
    assert build_failure(error, "apply").java_class == java_class


def test_converters_are_the_connectors_or_else_the_workers_with_their_settings() -> None:
    worker = {"key.converter": "String", "value.converter": "Json", "value.converter.schemas.enable": "false"}
    record = parse_record_line('{"id": 1}', PLACE, 0)
    written = PreviewConverters({}, worker, PLUGINS).write(record)
    assert isinstance(written, Message)
    assert written.value == b'{"id":1}'
    # The worker's settings are not those of the connector's own converter.
    written = PreviewConverters({"value.converter": "Json"}, worker, PLUGINS).write(record)
    assert isinstance(written, Message)
    assert written.value == b'{"schema":null,"payload":{"id":1}}'
    with pytest.raises(ConfigError, match=r"No key\.converter.*the worker"):
        PreviewConverters({"value.converter": "Json"}, None, PLUGINS)


def test_a_message_that_a_converter_refuses_names_the_converter() -> None:
    conversion = PreviewConverters({"key.converter": "Json", "value.converter": "Json"}, None, PLUGINS)
    read = conversion.read(Message("t", b"{", b"{}"), 0)
    assert isinstance(read, PreviewFailure)
    assert (read.stage, read.java_class) == ("key.converter", "DataException")


def test_messages_with_headers_go_round() -> None:
    conversion = PreviewConverters({"key.converter": "String", "value.converter": "Json"}, None, PLUGINS)
    message = Message("t", b"k", b'{"schema":{"type":"int32","optional":false},"payload":7}', (("h", b"1"),))
    record = conversion.read(message, 5)
    assert isinstance(record, SinkRecord)
    assert (record.offset, record.value) == (5, 7)
    assert conversion.write(record) == message


def _changes(before: str, after: str) -> list[tuple[str, str]]:
    first, second = (flatten_record(parse_record_line(line, PLACE, 0)) for line in (before, after))
    return [(change.mark, change.path) for change in diff_records(first, second)]


def test_changes() -> None:
    assert _changes('{"a": 1, "b": 2}', '{"a": 1, "b": "2", "c": 3}') == [("~", "value.b"), ("+", "value.c")]
    assert _changes('{"a": {"b": 1, "c": 2}}', '{"a": {"b": 1}}') == [("-", "value.a.c")]
    # What was in a container that is none any more is not told one by one.
    assert _changes('{"a": 1, "b": 2}', "5") == [("~", "value")]
    assert _changes("5", '{"a": 1}') == [("~", "value"), ("+", "value.a")]


def test_a_connectors_file_need_not_be_complete(tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("transforms=a\n")
    assert parse_connector_file(file).name == ""
    plan = PreviewPlan.read(str(file), None, PLUGINS)
    assert plan.defaults == RecordDefaults("records", is_sink=False)
    file.write_text("topics=x, y\nconnector.class=com.example.Unknown\n")
    assert PreviewPlan.read(str(file), None, PLUGINS).defaults == RecordDefaults("x", is_sink=True)


def test_references_are_resolved_by_the_providers_of_the_workers_file(tmp_path: Path) -> None:
    secrets, worker, connector = (tmp_path / name for name in ("s.properties", "w.properties", "c.properties"))
    secrets.write_text("topic=hidden-topic\n")
    java = "org.apache.kafka.common.config.provider.FileConfigProvider"
    worker.write_text(f"key.converter=String\nconfig.providers=file\nconfig.providers.file.class={java}\n")
    connector.write_text(f"topic=${{file:{secrets}:topic}}\n")
    plan = PreviewPlan.read(str(connector), str(worker), PLUGINS)
    assert plan.defaults.topic == "hidden-topic"
    assert plan.mask.mask("the hidden-topic") == "the [hidden]"
    assert PreviewPlan.read(str(connector), None, PLUGINS).defaults.topic == f"${{file:{secrets}:topic}}"


def test_a_json_file_tells_lines_and_repeated_keys_of_its_own_object(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('{"name": "a", "config": {\n"x": "name", "name": "a",\n"y": "1", "x": 2}, "more": {"x": [{"y": 1}, "x"]}}')
    parsed = parse_connector_file(file)
    assert dict(parsed.lines) == {"name": 2, "x": 3, "y": 3}
    assert [(one.key, one.line, one.later_line) for one in parsed.duplicates] == [("x", 2, 3)]
