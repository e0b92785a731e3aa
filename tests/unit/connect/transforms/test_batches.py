from __future__ import annotations

import pytest

from connect.data import Headers, Schema, Struct, Type
from connect.errors import DataError
from connect.plugins import Kind, Plugins
from connect.record import ConnectRecord, SinkRecord, SourceRecord
from connect.transforms.cast import CastValue
from connect.transforms.extract_field import ExtractFieldKey
from connect.transforms.header_from import HeaderFromValue
from connect.transforms.header_transforms import InsertHeader
from connect.transforms.hoist_field import HoistFieldValue
from connect.transforms.insert_field import InsertFieldValue
from connect.transforms.mask_field import MaskFieldValue
from connect.transforms.record_copies import copy_record

ONE = Schema(Type.STRUCT, fields=[("id", Schema.INT64)])
TWO = Schema(Type.STRUCT, fields=[("id", Schema.STRING), ("more", Schema.OPTIONAL_STRING)])


def _record(schema: Schema | None, value: object) -> SourceRecord:
    return SourceRecord({"p": 1}, {"o": 2}, "t", 3, None, None, schema, value, 4)


def test_batch_with_different_schemas_maps_and_nulls_is_converted() -> None:
    cast = CastValue()
    cast.configure({"spec": "id:int32"})
    records = [
        _record(ONE, Struct(ONE, [7])),
        _record(TWO, Struct(TWO, ["8", None])),
        _record(None, {"id": 9}),
        _record(None, None),
    ]
    results = cast.apply_batch(records)
    values = [r.value for r in results if r is not None]
    assert [v.values if isinstance(v, Struct) else v for v in values] == [[7], [8, None], {"id": 9}, None]
    assert results[3] is records[3]


def test_records_of_one_schema_share_the_new_schema_object() -> None:
    insert = InsertFieldValue()
    insert.configure({"static.field": "s", "static.value": "x"})
    first, second = insert.apply_batch([_record(ONE, Struct(ONE, [1])), _record(ONE, Struct(ONE, [2]))])
    third = insert.apply(_record(ONE, Struct(ONE, [3])))
    assert None not in (first, second, third)
    assert len({id(record.value_schema) for record in (first, second, third) if record is not None}) == 1


def test_plan_cache_is_bounded() -> None:
    hoist = HoistFieldValue()
    hoist.configure({"field": "w"})
    for i in range(500):
        schema = Schema(Type.STRUCT, fields=[(f"f{i}", Schema.INT64)])
        result = hoist.apply(_record(schema, Struct(schema, [i])))
        assert result is not None
        assert result.value.values[0].schema is schema
    assert len(hoist._plans) <= 64


def test_first_bad_record_of_a_batch_is_reported_and_good_ones_can_be_retried() -> None:
    cast = CastValue()
    cast.configure({"spec": "id:int32"})
    good, bad = _record(None, {"id": "1"}), _record(None, {"id": "x"})
    with pytest.raises(DataError, match=r"Value \(x\) was out of range"):
        cast.apply_batch([good, bad])
    again = cast.apply(good)
    assert again is not None
    assert (good.value, again.value) == ({"id": "1"}, {"id": 1})


@pytest.mark.parametrize(
    "record",
    [
        _record(ONE, Struct(ONE, [1])),
        SinkRecord("t", 1, None, "k", ONE, Struct(ONE, [1]), 5, 6, "CreateTime", None, "was", 9),
    ],
    ids=["source", "sink"],
)
def test_copy_record_copies_all_slots_and_the_headers(record: ConnectRecord) -> None:
    record.headers = Headers().add("h", 1)
    copied = copy_record(record)
    slots = [slot for cls in type(record).__mro__ for slot in getattr(cls, "__slots__", ())]
    assert {slot: getattr(copied, slot) for slot in slots} == {slot: getattr(record, slot) for slot in slots}
    assert copied.headers is not None
    copied.headers.add("more", 2)
    assert len(record.headers) == 1


def test_subclass_of_source_record_is_preserved() -> None:
    class Tagged(SourceRecord):
        __slots__ = ("tag",)

        tag: str

    record = Tagged({}, {}, "t", value="v")
    record.tag = "x"
    insert = InsertHeader()
    insert.configure({"header": "h", "value.literal": "1"})
    result = insert.apply(record)
    assert isinstance(result, Tagged)
    assert (result.tag, record.headers) == ("x", None)


def test_struct_with_a_schema_other_than_the_record_schema_is_rejected() -> None:
    cast = CastValue()
    cast.configure({"spec": "id:int32"})
    with pytest.raises(DataError, match="another schema than its record says"):
        cast.apply_batch([_record(ONE, Struct(ONE, [1])), _record(ONE, Struct(TWO, ["1", None]))])


def test_null_is_rejected_for_known_and_new_schemas() -> None:
    mask = MaskFieldValue()
    mask.configure({"fields": "id"})
    good, null = _record(ONE, Struct(ONE, [7])), _record(ONE, None)
    message = r"^Only Struct objects supported for \[mask fields\], found: null$"
    with pytest.raises(DataError, match=message):
        mask.apply(null)
    masked = mask.apply(good)
    assert masked is not None
    assert masked.value.values == [0]
    for records in ([null], [good, null], [null, null]):
        with pytest.raises(DataError, match=message):
            mask.apply_batch(records)


def test_header_from_rejects_null_in_required_field_in_batches() -> None:
    schema = Schema(Type.STRUCT, fields=[("id", Schema(Type.INT64, default=5))])
    header_from = HeaderFromValue()
    header_from.configure({"fields": "id", "headers": "h", "operation": "copy", "replace.null.with.default": "false"})
    good, null = _record(schema, Struct(schema, [7])), _record(schema, Struct(schema, [None]))
    for records in ([null], [good, null]):
        with pytest.raises(DataError, match=r"A null value requires an optional schema but was Schema\{INT64\}"):
            header_from.apply_batch(records)


def test_null_in_required_field_is_rejected_by_name() -> None:
    insert = InsertFieldValue()
    insert.configure({"topic.field": "t"})
    with pytest.raises(DataError, match='null used for required field: "id", schema type: INT64'):
        insert.apply(_record(ONE, Struct(ONE, [None])))


def test_key_variant_does_not_change_the_value() -> None:
    extract = ExtractFieldKey()
    extract.configure({"field": "id"})
    record = SourceRecord({}, {}, "t", None, ONE, Struct(ONE, [7]), None, {"v": 1})
    result = extract.apply(record)
    assert result is not None
    assert (result.key_schema, result.key, result.value) == (Schema.INT64, 7, {"v": 1})


def test_every_apache_class_loads_by_its_java_name_and_documents_its_keys() -> None:
    plugins = Plugins.discover()
    apache = "org.apache.kafka.connect.transforms."
    found = [d for kind in (Kind.TRANSFORMATION, Kind.PREDICATE) for d in plugins.of(kind) if d.class_name.startswith(apache)]
    assert len(found) == 29
    for desc in found:
        for key in plugins.load(desc).config_def().keys.values():
            assert key.doc, f"{desc.class_name}: {key.name} has no text"
