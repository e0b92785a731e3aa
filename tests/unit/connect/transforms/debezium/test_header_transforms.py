"""ExtractChangedRecordState and HeaderToValue."""

from __future__ import annotations

from typing import Any

import pytest

from connect.data.headers import Headers
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import ConfigError, DataError
from connect.record import SourceRecord
from connect.transforms.debezium.extract_changed_record_state import ExtractChangedRecordState
from connect.transforms.debezium.header_to_value import HeaderToValue

from .change_events import event, headers_of, row, tombstone

BOTH = {"header.changed.name": "Changed", "header.unchanged.name": "Unchanged"}


def _changes(config: dict[str, str], record: SourceRecord) -> Any:
    made = ExtractChangedRecordState()
    made.configure(config)
    return made.apply(record)


def _moved(headers: str, fields: str, record: SourceRecord, **more: str) -> Any:
    made = HeaderToValue()
    made.configure({"headers": headers, "fields": fields, "operation": "copy", **more})
    return made.apply(record)


def test_changed_and_unchanged_fields_are_listed_in_headers() -> None:
    record = event("u", row(1, "Anne", 2, None), row(1, "Anna", 2, "x"))
    result = _changes(BOTH, record)
    assert headers_of(result) == {"Changed": ["name", "note"], "Unchanged": ["id", "level"]}
    header = result.headers.last_with_name("Changed")
    assert (header.schema.name, header.schema.optional, header.schema.value_schema) == ("Changed", True, Schema.OPTIONAL_STRING)
    assert record.headers is None


def test_lists_are_empty_if_a_row_is_missing() -> None:
    for record in (event("c", None, row(1, "x", 1, None)), event("d", row(1, "x", 1, None))):
        assert headers_of(_changes(BOTH, record)) == {"Changed": [], "Unchanged": []}
    assert headers_of(_changes({"header.changed.name": "C"}, event("c", None, row(1, "x", 1, None)))) == {"C": []}


def test_other_records_get_no_headers() -> None:
    for record in (tombstone(), SourceRecord({}, {}, "t", value={"a": 1}), event("u")):
        if record.value_schema is None:
            assert _changes(BOTH, record) is record
    assert _changes({}, event("u")).headers is None


def test_nan_equals_nan() -> None:
    event_map = {"op": "u", "source": {}, "before": {"a": float("nan"), "b": 1}, "after": {"a": float("nan"), "b": 2, "c": None}}
    result = _changes(BOTH, SourceRecord({}, {}, "t", value=event_map))
    assert headers_of(result) == {"Changed": ["b", "c"], "Unchanged": ["a"]}


def test_headers_become_fields_of_the_value_and_of_nested_structs() -> None:
    headers = Headers().add("at", 5, Schema.INT64).add("key", 100, Schema.INT32).add("other", "o", Schema.STRING)
    record = event("c", None, row(1, "x", 1, None), headers=headers)
    result = _moved("at,key", "event_timestamp,source.id", record, operation="move")
    assert (result.value.get("event_timestamp"), result.value.get("source").get("id")) == (5, 100)
    assert result.value_schema.field_names[-1] == "event_timestamp"
    assert result.value_schema.name.endswith(".Envelope")
    assert headers_of(result) == {"other": "o"}
    assert result.value.get("source").schema is result.value_schema.field("source").schema
    assert headers_of(_moved("at,key", "a,b", record)) == {"at": 5, "key": 100, "other": "o"}
    assert record.value.schema.field("event_timestamp") is None


def test_missing_struct_on_a_path_is_created() -> None:
    headers = Headers().add("a", 1, Schema.INT32).add("b", "t", Schema.STRING)
    result = _moved("a,b", "meta.one,meta.deep.two", event("c", None, row(1, "x", 1, None), headers=headers))
    assert result.value.get("meta").as_dict() == {"one": 1, "deep": {"two": "t"}}
    assert result.value_schema.field("meta").schema.optional


def test_existing_field_is_set_if_the_type_matches() -> None:
    headers = Headers().add("op", "x", Schema.STRING)
    record = event("c", None, row(1, "x", 1, None), headers=headers)
    assert _moved("op", "op", record).value.get("op") == "x"
    with pytest.raises(DataError, match='"ts_ms"'):
        _moved("op", "ts_ms", record)


def test_nulls_are_replaced_by_defaults() -> None:
    headers = Headers().add("h", "x", Schema.STRING)
    result = _moved("h", "after.h", event("c", None, row(1, "x", 1, None), headers=headers))
    assert result.value.get_without_default("after").values == [1, "x", 1, "none", "x"]


def test_header_for_a_null_struct_is_lost_or_rejected_if_strict() -> None:
    headers = Headers().add("h", "x", Schema.STRING)
    record = event("d", row(1, "x", 1, None), headers=headers)
    lost = _moved("h", "after.h", record, operation="move")
    assert (lost.value.get("after"), len(lost.headers)) == (None, 0)
    with pytest.raises(DataError, match=r"The header h cannot become after\.h: after is null"):
        _moved("h", "after.h", record, **{"conversion.strict": "true"})


def test_value_that_cannot_take_a_header_is_rejected() -> None:
    with pytest.raises(DataError, match=r"Only Struct objects supported for \[Header field insertion\], found"):
        _moved("h", "h", SourceRecord({}, {}, "t", value={"a": 1}, headers=Headers().add("h", 1)))
    with pytest.raises(DataError, match="h has no schema"):
        _moved("h", "h", event("c", None, row(1, "x", 1, None), headers=Headers().add("h", 1)))
    with pytest.raises(DataError, match="op is of type STRING, not a struct"):
        _moved("h", "op.h", event("c", None, row(1, "x", 1, None), headers=Headers().add("h", 1, Schema.INT32)))


def test_records_without_value_or_headers_pass() -> None:
    for record in (tombstone(), event("c", None, row(1, "x", 1, None))):
        assert _moved("h", "h", record) is record


def test_record_with_some_of_the_headers_gets_those_fields() -> None:
    schema = SchemaBuilder.struct().field("a", Schema.INT32).build()
    made = HeaderToValue()
    made.configure({"headers": "h,i", "fields": "x,y", "operation": "copy"})
    for names in (["h"], ["i"], ["h", "i"]):
        headers = Headers()
        for name in names:
            headers.add(name, name, Schema.STRING)
        result = made.apply(SourceRecord({}, {}, "t", value_schema=schema, value=Struct(schema, [1]), headers=headers))
        assert result is not None
        assert result.value.as_dict() == {"a": 1, **{{"h": "x", "i": "y"}[name]: name for name in names}}


@pytest.mark.parametrize(
    ("config", "named"),
    [
        ({"headers": "a,b", "fields": "x", "operation": "copy"}, "same number"),
        ({"headers": "a", "fields": "x"}, "operation"),
        ({"headers": "a", "fields": "x", "operation": "swap"}, "MOVE"),
        ({"headers": "a b", "fields": "x", "operation": "copy"}, "space"),
        ({"headers": "", "fields": "", "operation": "copy"}, "Empty list"),
    ],
)
def test_invalid_config_is_rejected_at_start(config: dict[str, str], named: str) -> None:
    with pytest.raises(ConfigError) as caught:
        HeaderToValue().configure(config)
    assert named in caught.value.message
