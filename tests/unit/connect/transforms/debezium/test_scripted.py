"""Filter and ContentBasedRouter."""

from __future__ import annotations

from typing import Any

import pytest

from connect.data.headers import Headers
from connect.data.schema import Schema
from connect.errors import ConfigError, DataError
from connect.record import SourceRecord
from connect.transforms.debezium.scripted import ContentBasedRouter, ExpressionFilter

from .change_events import event, row, tombstone


def _filter(condition: str, language: str = "jsr223.groovy", **more: str) -> ExpressionFilter:
    made = ExpressionFilter()
    made.configure({"condition": condition, "language": language, **{k.replace("_", "."): v for k, v in more.items()}})
    return made


def _router(expression: str, language: str = "jsr223.groovy", **more: str) -> ContentBasedRouter:
    made = ContentBasedRouter()
    made.configure({"topic.expression": expression, "language": language, **{k.replace("_", "."): v for k, v in more.items()}})
    return made


def _delete(id: int) -> SourceRecord:
    return event("d", row(id, "x", 1, None))


@pytest.mark.parametrize(
    ("language", "condition"),
    [
        ("jsr223.groovy", "value.op != 'd' || value.before.id != 2"),
        ("jsr223.graal.js", "value.op !== 'd' || value.before.id != 2"),
        ("jsr223.nashorn", "value.get('op') != 'd' || value.get('before').get('id') != 2"),
    ],
)
def test_filter_keeps_records_for_which_the_condition_is_true(language: str, condition: str) -> None:
    transformation = _filter(condition, language)
    kept = [_delete(1), event("c", None, row(2, "x", 1, None))]
    assert [transformation.apply(record) for record in (*kept, _delete(2))] == [*kept, None]


def test_condition_reads_headers_and_topic() -> None:
    record = event("c", None, row(1, "x", 1, None), headers=Headers().add("idh", 1, Schema.INT32))
    assert _filter("header.idh.value == 1 && topic.startsWith('shop')").apply(record) is record
    assert _filter("headers['idh'].value > 1").apply(record) is None


@pytest.mark.parametrize(("mode", "kept"), [("keep", True), ("drop", False), ("EVALUATE", False)])
def test_records_without_value_are_handled_by_mode(mode: str, kept: bool) -> None:
    record = tombstone()
    result = _filter("value != null && value.op == 'u'", null_handling_mode=mode).apply(record)
    assert result is (record if kept else None)


def test_record_whose_topic_does_not_match_fully_passes() -> None:
    record = _delete(2)
    assert _filter("false", topic_regex="shop").apply(record) is record
    assert _filter("false", topic_regex="shop.*").apply(record) is None
    assert _filter("false", topic_regex=" ").apply(record) is None


def test_condition_that_is_not_boolean_is_an_error() -> None:
    with pytest.raises(DataError, match="returns 'd' for this record; a condition must return true or false"):
        _filter("value.op").apply(_delete(1))
    with pytest.raises(DataError, match="returns null"):
        _filter("value.after && value.after.id === 2", "jsr223.graal.js").apply(_delete(1))


def test_failing_condition_names_what_is_null() -> None:
    with pytest.raises(DataError, match=r"value\.after is null, so value\.after\.id cannot be read"):
        _filter("value.after.id == 2").apply(_delete(1))


def test_router_sets_the_topic_by_content() -> None:
    router = _router("value == null ? 'nulls' : (value.before.id == 1 ? 'ones' : null)", null_handling_mode="evaluate")
    record = _delete(2)
    one = router.apply(_delete(1))
    assert one is not None
    assert (one.topic, router.apply(record) is record) == ("ones", True)
    nothing = router.apply(tombstone())
    assert nothing is not None
    assert nothing.topic == "nulls"
    assert record.topic == "shop.public.customers"


def test_topic_can_be_built_from_a_template() -> None:
    groovy = _router("\"${topic.replace('public', 'by')}-${value.source.table}\"").apply(_delete(1))
    script = _router("`${topic.split('.')[0]}-${value.op}`", "jsr223.javascript").apply(_delete(1))
    assert groovy is not None
    assert script is not None
    assert (groovy.topic, script.topic) == ("shop.by.customers-customers", "shop-d")


@pytest.mark.parametrize("expression", ["1", "' '", "true", "[topic]"])
def test_result_that_is_not_a_topic_is_an_error(expression: str) -> None:
    with pytest.raises(DataError, match="expected a string for the topic"):
        _router(expression).apply(_delete(1))


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"language": "jsr223.groovy"}, "condition"),
        ({"condition": "true"}, "language"),
        ({"condition": "true", "language": "groovy"}, "jsr223.groovy"),
        ({"condition": "true", "language": "jsr223.jython"}, "safe subset of Groovy and JavaScript"),
        ({"condition": "true", "language": "wasm.chicory"}, "is supported; expected jsr223.groovy"),
        ({"condition": " ", "language": "jsr223.groovy"}, "condition"),
        ({"condition": "operation != 'd'", "language": "jsr223.groovy"}, "no variable operation; did you mean partition?"),
        ({"condition": "topic == 'd", "language": "jsr223.groovy"}, "' is missing"),
        ({"condition": "System.exit(1)", "language": "jsr223.groovy"}, "At position 1 (>>>System.exit(1)): there is no variable"),
        ({"condition": "/a/g.test(topic)", "language": "jsr223.nothing"}, "jsr223.nothing"),
        ({"condition": "true", "language": "jsr223.groovy", "null.handling.mode": "x"}, "null.handling.mode"),
        ({"condition": "true", "language": "jsr223.groovy", "topic.regex": "("}, "topic.regex"),
    ],
)
def test_invalid_config_is_rejected_at_start(config: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ExpressionFilter().configure(config)
    assert named in caught.value.message
