"""A batch in columns gives what its records give one by one: the same results, of the same classes, or the first error."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.data import Headers, Schema, Struct, Type
from connect.data.logical import date_of, date_schema, decimal_schema, instant_of, timestamp_schema
from connect.errors import ConnectError
from connect.java.sized_numbers import Float32, Int8
from connect.plugins import Plugins
from connect.record import ConnectRecord, SinkRecord, SourceRecord
from connect.record_format import record_from_json, record_to_json
from connect.transforms.chain import Step, apply_steps, apply_steps_batch, build_steps

PLUGINS = Plugins.discover()
APACHE = "org.apache.kafka.connect.transforms"
GOLDEN = [
    json.loads(line)
    for path in sorted((Path(__file__).parent / "golden").glob("*.jsonl"))
    for line in path.read_text(encoding="utf-8").splitlines()
]


def _comparable(record: ConnectRecord | None) -> Any:
    if record is None:
        return None
    slots = [slot for cls in type(record).__mro__ for slot in getattr(cls, "__slots__", ())]
    return type(record), {slot: _with_types(getattr(record, slot)) for slot in slots}


def _with_types(value: Any) -> Any:
    """The value with the class of everything in it: 1, True and 1.0 are three things here."""
    if isinstance(value, Struct):
        return "struct", value.schema, [_with_types(v) for v in value.values]
    if isinstance(value, list | tuple | Headers):
        return type(value), [_with_types(v) for v in value]
    if isinstance(value, dict):
        return dict, [(_with_types(k), _with_types(v)) for k, v in value.items()]
    return value if isinstance(value, Schema) else (type(value), repr(value))


def _outcome(steps: Sequence[Step], record: ConnectRecord) -> Any:
    try:
        return _comparable(apply_steps(steps, record))
    except ConnectError as e:
        return "error", type(e), e.message


def assert_agree(config: dict[str, Any], records: Sequence[ConnectRecord]) -> None:
    """Runs the records one by one and as a batch, through chains of their own."""
    single = build_steps(config, PLUGINS)
    expected = [_outcome(single, record) for record in records]
    errors = [outcome for outcome in expected if _is_error(outcome)]
    before = [_comparable(record) for record in records]
    batch = build_steps(config, PLUGINS)
    for _ in range(2):  # plans compiled now, and plans kept
        if errors:
            with pytest.raises(ConnectError) as raised:
                apply_steps_batch(batch, records)
            if f"{APACHE}.Filter" not in config.values() and "predicates" not in config:
                assert ("error", type(raised.value), raised.value.message) == errors[0]
        else:
            assert [_comparable(record) for record in apply_steps_batch(batch, records)] == expected
    assert [_comparable(record) for record in records] == before
    if errors and len(errors) < len(records):
        assert_agree(config, [r for r, outcome in zip(records, expected, strict=True) if not _is_error(outcome)])


def _is_error(outcome: Any) -> bool:
    return outcome is not None and outcome[0] == "error"


def _chain(*steps: tuple[str, dict[str, str]]) -> dict[str, Any]:
    config = {"transforms": ",".join(f"t{i}" for i in range(len(steps)))}
    for i, (name, own) in enumerate(steps):
        config[f"transforms.t{i}.type"] = name
        config |= {f"transforms.t{i}.{key}": value for key, value in own.items()}
    return config


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_golden_cases_hold_in_batches(case: dict[str, Any]) -> None:
    try:
        config = _chain((case["class"], case["config"]))
        build_steps(config, PLUGINS)
    except ConnectError:
        return  # a case of a wrong configuration
    own = record_from_json(case["input"])
    assert_agree(config, [own] * 5)
    assert_agree(config, [own, *(record_from_json(other["input"]) for other in GOLDEN[:20]), own])


FLAT = Schema(
    Type.STRUCT,
    name="flat",
    version=3,
    fields=[
        ("a", Schema.INT32),
        ("b", Schema.OPTIONAL_STRING),
        ("c", Schema(Type.FLOAT64, optional=True, default=1.5)),
        ("d", Schema(Type.STRING, default="d")),
        ("e", Schema.OPTIONAL_BOOLEAN),
        ("t", timestamp_schema(optional=True)),
        ("m", decimal_schema(2, optional=True)),
        ("n", Schema.OPTIONAL_INT64),
    ],
)
DEEP = Schema(
    Type.STRUCT,
    optional=True,
    fields=[
        ("a", Schema.OPTIONAL_INT32),
        ("f", FLAT.replace(optional=True)),
        ("x", Schema(Type.STRUCT, fields=[("y", Schema.STRING), ("day", date_schema(optional=True))])),
        ("l", Schema(Type.ARRAY, optional=True, value_schema=Schema.STRING)),
    ],
)
KNOWN_TEXTS = ["", "0", "-7", "42", "true", "TRUE", "1.5", "x", "2024-01-31", "٤٢", "9" * 20]
TEXTS = st.one_of(st.sampled_from(KNOWN_TEXTS), st.text(max_size=4))
INTS = st.one_of(st.integers(-3, 300), st.sampled_from([2**31 - 1, -(2**31)]))
LONGS = st.one_of(INTS, st.sampled_from([2**63 - 1, -(2**63), 1_700_000_000_000]))
DOUBLES = st.one_of(st.sampled_from([0.0, -0.0, 1.5, 300.7, 1e30, float("nan"), float("-inf")]), st.floats())
INSTANTS = st.one_of(st.integers(-(10**12), 4 * 10**12), st.sampled_from([-(10**15), 10**18 + 1])).map(instant_of)
"""Some are outside of Python's years."""
DAYS = st.one_of(st.dates(), st.sampled_from([-719_164, 2**31 - 1]).map(date_of))


def _maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(strategy, st.none())


FLAT_VALUES = st.tuples(
    INTS,
    _maybe(TEXTS),
    _maybe(DOUBLES),
    _maybe(TEXTS),
    _maybe(st.booleans()),
    _maybe(INSTANTS),
    _maybe(st.integers(-999, 999).map(lambda unscaled: Decimal(unscaled).scaleb(-2))),
    _maybe(LONGS),
)
FLATS = FLAT_VALUES.map(lambda values: Struct(FLAT, list(values)))
INNER = DEEP.fields[1].schema if DEEP.fields else FLAT
POINT = DEEP.fields[2].schema if DEEP.fields else FLAT
DEEPS = st.tuples(
    _maybe(INTS),
    _maybe(FLAT_VALUES.map(lambda values: Struct(INNER, list(values)))),
    st.tuples(TEXTS, _maybe(DAYS)).map(lambda values: Struct(POINT, list(values))),
    _maybe(st.lists(TEXTS, max_size=2)),
).map(lambda values: Struct(DEEP, list(values)))
BAD = st.sampled_from([Struct(FLAT, [None] * 8), Struct(FLAT.replace(doc="equal but for this"), [1, *[None] * 7])])
PLAIN = st.one_of(TEXTS, LONGS, DOUBLES, st.booleans(), st.none(), st.just(Int8(3)), st.just(Float32(0.5)), INSTANTS, DAYS)
MAPS = st.dictionaries(st.sampled_from(["a", "b", "c", "d", "t", "n"]), st.one_of(PLAIN, st.just({"y": 1})), max_size=6)
DATA: st.SearchStrategy[tuple[Schema | None, Any]] = st.one_of(
    st.tuples(st.just(FLAT), FLATS),
    st.tuples(st.just(FLAT), FLATS),
    st.tuples(st.just(FLAT.replace()), st.one_of(FLATS, BAD)),
    st.tuples(st.just(DEEP), DEEPS),
    st.tuples(st.none(), MAPS),
    st.tuples(st.sampled_from([FLAT, DEEP, None, Schema.OPTIONAL_STRING]), st.none()),
    st.tuples(st.just(Schema.STRING), TEXTS),
    st.tuples(st.just(Schema.INT64), LONGS),
)
HEADERS = st.one_of(st.none(), st.lists(st.sampled_from(["h", "i"]), max_size=2))


def _record(
    key: tuple[Schema | None, Any], value: tuple[Schema | None, Any], topic_and_timestamp: tuple[str, int | None], names: Any
) -> Any:
    topic, timestamp = topic_and_timestamp
    headers = None if names is None else Headers().add("k", 1)
    for name in names or ():
        headers = (headers or Headers()).add(name, 2, Schema.INT8)
    if timestamp == 0:
        return SinkRecord(topic, 1, *key, *value, 5, timestamp, "CreateTime", headers, "was", 9)
    return SourceRecord({"p": 1}, {"o": 2}, topic, None, *key, *value, timestamp, headers)


TOPICS_AND_TIMESTAMPS = st.tuples(st.sampled_from(["t", "u"]), st.sampled_from([None, 0, 1_700_000_000_000]))
RECORDS = st.builds(_record, DATA, DATA, TOPICS_AND_TIMESTAMPS, HEADERS)
SAME = DATA.flatmap(
    lambda datum: st.lists(st.builds(_record, st.just((None, None)), st.just(datum), TOPICS_AND_TIMESTAMPS, HEADERS), min_size=4)
)
FLAT_RECORDS = st.builds(_record, st.just((None, "k")), st.tuples(st.just(FLAT), FLATS), st.just(("t", None)), HEADERS)
ALIKE = st.lists(FLAT_RECORDS, min_size=4)
BATCHES = st.one_of(ALIKE, SAME, st.lists(RECORDS, min_size=4, max_size=12), ALIKE.map(lambda records: records * 2))

KEY_OR_VALUE_STEPS: list[tuple[str, dict[str, str]]] = [
    ("Cast", {"spec": "a:int8,b:int32,c:string,d:boolean,n:int16,t:int64,m:float32"}),
    ("Cast", {"spec": "c:int64,n:string,e:int8,a:float64", "replace.null.with.default": "false"}),
    ("Cast", {"spec": "string"}),
    ("Cast", {"spec": "int32"}),
    ("ExtractField", {"field": "b"}),
    ("ExtractField", {"field": "d", "replace.null.with.default": "false"}),
    ("ExtractField", {"field": "x.y", "field.syntax.version": "V2"}),
    ("Flatten", {"delimiter": "_"}),
    ("HeaderFrom", {"fields": "a,d", "headers": "h,i", "operation": "move"}),
    ("HeaderFrom", {"fields": "a", "headers": "h", "operation": "copy"}),
    ("HoistField", {"field": "w"}),
    ("InsertField", {"static.field": "s", "static.value": "42", "topic.field": "top!", "timestamp.field": "ts"}),
    ("InsertField", {"partition.field": "part", "offset.field": "off"}),
    ("MaskField", {"fields": "a,b,t,m"}),
    ("MaskField", {"fields": "a,d", "replacement": "7"}),
    ("ReplaceField", {"exclude": "b,t", "renames": "a:z"}),
    ("ReplaceField", {"include": "a,d", "renames": "b:d", "replace.null.with.default": "false"}),
    ("SetSchemaMetadata", {"schema.name": "other"}),
    ("TimestampConverter", {"field": "t", "target.type": "unix"}),
    ("TimestampConverter", {"field": "n", "target.type": "string", "format": "yyyy-MM-dd HH:mm"}),
    ("TimestampConverter", {"target.type": "Date", "format": "yyyy-MM-dd"}),
]
PLAIN_STEPS: list[tuple[str, dict[str, str]]] = [
    ("DropHeaders", {"headers": "h"}),
    ("Filter", {}),
    ("InsertHeader", {"header": "h", "value.literal": "5"}),
    ("RegexRouter", {"regex": "t(.*)", "replacement": "to$1"}),
    ("TimestampRouter", {"topic.format": "${topic}-${timestamp}", "timestamp.format": "yyyy"}),
    ("ValueToKey", {"fields": "a,d"}),
]
ALL_STEPS = [(f"{APACHE}.{name}${variant}", config) for name, config in KEY_OR_VALUE_STEPS for variant in ("Value", "Key")]
ALL_STEPS += [(f"{APACHE}.{name}", config) for name, config in PLAIN_STEPS]
ALL_STEPS += [
    ("CopyValue", {"source.field": "a", "target.field": "copy"}),
    ("KafkaMetadataTransform", {"external_field": "cluster,one"}),
    ("KafkaMetadataTransform", {"nested": "true", "field_name": "a"}),
]
EXAMPLES = 80
PREDICATES = [("HasHeaderKey", {"name": "h"}), ("RecordIsTombstone", {}), ("TopicNameMatches", {"pattern": "t"})]


@settings(max_examples=EXAMPLES, deadline=None)
@given(step=st.sampled_from(ALL_STEPS), records=BATCHES, strict=st.booleans())
def test_single_transformation_agrees(step: tuple[str, dict[str, str]], records: list[ConnectRecord], strict: bool) -> None:
    name, config = step
    if name.endswith("$Key"):
        for record in records:
            record.key_schema, record.key = record.value_schema, record.value
    assert_agree(_chain((name, config)) | ({"conversion.strict": "true"} if strict else {}), records)


@settings(max_examples=EXAMPLES, deadline=None)
@given(records=BATCHES, steps=st.lists(st.sampled_from(ALL_STEPS), min_size=2, max_size=5))
def test_chain_agrees(records: list[ConnectRecord], steps: list[tuple[str, dict[str, str]]]) -> None:
    assert_agree(_chain(*steps), records)


@settings(max_examples=EXAMPLES // 4, deadline=None)
@given(records=BATCHES, predicate=st.sampled_from(PREDICATES), negate=st.sampled_from(["true", "false"]))
def test_chain_with_predicate_agrees(records: list[ConnectRecord], predicate: tuple[str, dict[str, str]], negate: str) -> None:
    name, own = predicate
    config = _chain((f"{APACHE}.HoistField$Value", {"field": "w"}), (f"{APACHE}.HoistField$Value", {"field": "v"}))
    config |= {"predicates": "p", "predicates.p.type": f"{APACHE}.predicates.{name}", "transforms.t0.predicate": "p"}
    config |= {f"predicates.p.{key}": value for key, value in own.items()} | {"transforms.t0.negate": negate}
    assert_agree(config, records)


@pytest.mark.parametrize("count", [1, 9])
def test_masked_date_outside_of_python_years_is_a_date(count: int) -> None:
    schema = Schema(Type.STRUCT, fields=[("d", date_schema()), ("t", timestamp_schema())])
    struct = Struct(schema, [date_of(-719_164), instant_of(1 << 60)])
    steps = build_steps(_chain((f"{APACHE}.MaskField$Value", {"fields": "d,t"})), PLUGINS)
    found = apply_steps_batch(steps, [SourceRecord({}, {}, "t", value_schema=schema, value=struct)] * count)
    expected = Struct(schema, [date_of(0), instant_of(0)])
    assert [record and record.value for record in found] == [expected] * count


def test_json_of_a_changed_batch_equals_the_json_of_its_records() -> None:
    """Structs made from columns are whole: they can be written, and compared."""
    schema = Schema(Type.STRUCT, fields=[("a", Schema.STRING)])
    records = [SourceRecord({}, {}, "t", None, None, None, schema, Struct(schema, [str(i)]), 4) for i in range(10)]
    steps = build_steps(_chain((f"{APACHE}.Cast$Value", {"spec": "a:int16"})), PLUGINS)
    changed = [record_to_json(r) for r in apply_steps_batch(steps, records) if r is not None]
    assert changed == [record_to_json(r) for r in (apply_steps(steps, record) for record in records) if r is not None]
    assert [node["value"]["payload"] for node in changed] == [{"a": i} for i in range(10)]
