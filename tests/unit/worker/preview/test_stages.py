"""What a preview over REST shows: records before and after each stage, from each kind of input, and each kind of failure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from connect.errors import BadRequestError
from connect.plugins import Plugins
from worker.model import PreviewRequest
from worker.preview.conversion import Message
from worker.preview.stages import TopicMessages, preview_stages

PLUGINS = Plugins.discover()
WORKER = {
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
SINK = {"connector.class": "FileStreamSink", "topics": "orders", "file": "x"}
SOURCE = {"connector.class": "FileStreamSource", "topic": "lines", "file": "x"}
MASK = {
    "transforms": "mask",
    "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value",
    "transforms.mask.fields": "card",
}


def no_topic(topic: str, limit: int) -> TopicMessages:
    raise AssertionError("no topic is to be read")


def preview(config: Mapping[str, str], request: PreviewRequest, read_topic: Any = no_topic) -> dict[str, Any]:
    return preview_stages(config, WORKER, PLUGINS, request, read_topic)


def test_changes_of_each_stage_are_shown_with_types_and_values() -> None:
    found = preview({**SINK, **MASK}, PreviewRequest([{"id": 7, "card": "4111"}]))
    (record,) = found["records"]
    assert found["source"] == {"kind": "given", "topic": None, "skipped": 0}
    assert {"path": "value.card", "type": "string", "value": '"4111"'} in record["fields"]
    (stage,) = record["stages"]
    assert (stage["transform"], stage["class"], stage["ran"]) == ("mask", "MaskFieldValue", True)
    assert stage["changes"] == [
        {"path": "value.card", "before": {"type": "string", "value": '"4111"'}, "after": {"type": "string", "value": '""'}}
    ]
    assert {"path": "value.card", "type": "string", "value": '""'} in record["result"]
    assert (record["dropped"], record["error"]) == (False, None)


def test_input_can_be_given_again() -> None:
    first = preview(SINK, PreviewRequest([{"id": 7}]))["records"][0]
    again = preview({**SINK, **MASK}, PreviewRequest([first["input"]]))["records"][0]
    assert again["fields"] == first["fields"]


def test_record_that_a_predicate_drops() -> None:
    config = {
        **SINK,
        "transforms": "drop",
        "transforms.drop.type": "org.apache.kafka.connect.transforms.Filter",
        "transforms.drop.predicate": "gone",
        "predicates": "gone",
        "predicates.gone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
    }
    dropped, kept = preview(config, PreviewRequest([{"topic": "orders", "value": None}, {"id": 1}]))["records"]
    assert (dropped["dropped"], dropped["result"], dropped["error"]) == (True, None, None)
    assert (kept["dropped"], kept["stages"][0]["ran"]) == (False, False)
    assert kept["stages"][0]["predicate"] == "gone (RecordIsTombstone)"


def test_failure_names_the_transformation() -> None:
    config = {
        **SINK,
        "transforms": "cast",
        "transforms.cast.type": "org.apache.kafka.connect.transforms.Cast$Value",
        "transforms.cast.spec": "id:int8",
    }
    (record,) = preview(config, PreviewRequest([{"id": "many"}]))["records"]
    assert record["error"]["transform"] == "cast"
    assert record["result"] is None
    assert not record["dropped"]


def test_transformations_that_cannot_be_created_are_an_error_beside_the_records() -> None:
    found = preview({**SINK, "transforms": "x", "transforms.x.type": "Unknown"}, PreviewRequest([{"id": 1}]))
    assert found["error"]["stage"] == "configure"
    assert found["records"][0]["fields"]
    assert found["records"][0]["stages"] == []


def test_given_value_that_is_no_record_fails_alone() -> None:
    bad = {"topic": "t", "partition": 0, "headers": [], "value": 5}
    failed, fine = preview(SINK, PreviewRequest([bad, {"id": 1}]))["records"]
    assert failed["error"]["message"].startswith("record 1: not a record")
    assert failed["error"]["stage"] == "read"
    assert fine["error"] is None


def test_sink_without_records_reads_its_first_topic_and_decodes_it() -> None:
    asked: list[tuple[str, int]] = []

    def read_topic(topic: str, limit: int) -> TopicMessages:
        asked.append((topic, limit))
        messages = [(4, Message(topic, b"k", b'{"id": 1}')), (5, Message(topic, None, b"no json"))]
        return TopicMessages(messages, skipped=2)

    found = preview({**SINK, "topics": "orders, other"}, PreviewRequest(limit=9), read_topic)
    assert asked == [("orders", 9)]
    assert found["source"] == {"kind": "topic", "topic": "orders", "skipped": 2}
    decoded, failed = found["records"]
    assert {"path": "offset", "type": "", "value": "4"} in decoded["fields"]
    assert {"path": "value.id", "type": "int64", "value": "1"} in decoded["fields"]
    assert failed["error"]["stage"] == "value.converter"


def test_source_shows_samples_that_its_connector_generates() -> None:
    config = {"connector.class": "Datagen", "quickstart": "users", "topic": "users"}
    found = preview(config, PreviewRequest(limit=2))
    assert found["source"]["kind"] == "connector"
    assert len(found["records"]) == 2
    assert {"path": "topic", "type": "", "value": "users"} in found["records"][0]["fields"]


def test_named_topic_comes_before_samples_and_its_records_become_source_records() -> None:
    def read_topic(topic: str, limit: int) -> TopicMessages:
        return TopicMessages([(4, Message(topic, None, b'{"id": 1}'))], 0)

    config = {"connector.class": "Datagen", "quickstart": "users", "topic": "users"}
    (record,) = preview(config, PreviewRequest(topic="other"), read_topic)["records"]
    paths = [field["path"] for field in record["fields"]]
    assert "offset" not in paths
    assert record["input"]["sourcePartition"] == {}


def test_source_without_samples_and_topic_has_nothing_to_run() -> None:
    with pytest.raises(BadRequestError, match="Give records, or the name of a topic"):
        preview({"connector.class": "FileStreamSource", "file": "x"}, PreviewRequest())


def test_message_that_a_source_cannot_write_is_a_failure_of_its_converter() -> None:
    config = {**SOURCE, "value.converter": "org.apache.kafka.connect.converters.LongConverter"}
    (record,) = preview(config, PreviewRequest([{"topic": "t", "value": {"schema": {"type": "string"}, "payload": "x"}}]))[
        "records"
    ]
    assert record["error"]["stage"] == "value.converter"


def test_long_values_are_cut() -> None:
    (record,) = preview(SINK, PreviewRequest([{"text": "x" * 5000}]))["records"]
    (text,) = [field["value"] for field in record["fields"] if field["path"] == "value.text"]
    assert len(text) == 2001
    assert text.endswith("…")
