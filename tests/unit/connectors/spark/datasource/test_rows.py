"""Rows of a spool as Spark gets them: records, and typed rows with what happened, when, and where."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import DataError
from connect.spool.schemas import SchemaTexts
from connect.spool.segments import build_segment, restore_bytes
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.datasource.columns import ADDED_COLUMNS, RECORDS, topic_of_table, unknown_table
from connectors.spark.datasource.rows import TypedRows, columns_of, records_of
from tests.unit.connect.spool.spools import NOW_MS, Run

TOPIC = "shop.public.orders"
FIELDS = [
    {"field": "id", "type": "int32", "optional": False},
    {"field": "name", "type": "string", "optional": True},
    {"field": "amount", "type": "bytes", "optional": True, "name": "org.apache.kafka.connect.data.Decimal",
     "parameters": {"scale": "2"}},
]  # fmt: skip
TWO_DOLLARS, COLUMNS = "AMg=", [("id", pa.int32()), ("name", pa.string()), ("amount", pa.decimal128(38, 2))]
AT = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)


def event(
    op: str, before: Any = None, after: Any = None, *, lsn: int = 7, fields: Any = FIELDS, ms: int = int(AT.timestamp() * 1000)
) -> bytes:
    row = {"type": "struct", "fields": fields, "optional": True}
    source = {
        "type": "struct",
        "fields": [{"field": "ts_ms", "type": "int64"}, {"field": "lsn", "type": "int64"}],
    }
    members = [("before", row), ("after", row), ("source", source), ("op", {"type": "string"})]
    schema = {"type": "struct", "name": f"{TOPIC}.Envelope", "fields": [{**s, "field": n} for n, s in members]}
    block = {"ts_ms": ms, "lsn": lsn}
    payload = {"before": before, "after": after, "source": block, "op": op}
    return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":")).encode()


def stored(*values: bytes | None, topic: str = TOPIC) -> tuple[pa.Table, dict[str, str]]:
    schemas = SchemaTexts({})
    run = Run(topic, [b"k"] * len(values), list(values))
    other = Run("shop.public.other", [None], [b"x"])
    return build_segment([(run, NOW_MS), (other, NOW_MS)], schemas), schemas.unstored


def decoded(
    *values: bytes | None, columns: Any = COLUMNS, ignores_others: bool = False, unavailable: str = UNAVAILABLE
) -> list[dict[str, Any]]:
    rows, schemas = stored(*values)
    wanted = pa.schema([*columns, *ADDED_COLUMNS])
    found = TypedRows(TOPIC, wanted, unavailable, ignores_others=ignores_others).decode(rows, 100, schemas)
    assert found.schema == wanted
    result: list[dict[str, Any]] = found.to_pylist()
    return result


def test_time_that_no_timestamp_can_hold_is_refused_by_row_and_field() -> None:
    row = {"id": 1, "name": "a", "amount": TWO_DOLLARS}
    with pytest.raises(DataError, match=r"row 101 of the spool, source position .*: source.ts_ms is 1764534000000000000, "):
        decoded(event("c", None, row), event("c", None, row, ms=1764534000000000000))


def test_change_events_become_typed_rows_in_order() -> None:
    row = {"id": 1, "name": "a", "amount": TWO_DOLLARS}
    rows = decoded(
        event("r", None, row),
        event("u", None, {**row, "name": UNAVAILABLE}, lsn=8),
        event("d", {"id": 1, "name": None, "amount": None}, lsn=9),
        None,
        event("t", lsn=10),
    )
    shown = [(row["id"], row["name"], row["amount"], row["_op"], row["_unchanged"]) for row in rows]
    assert shown == [
        (1, "a", Decimal(2), "r", None),
        (1, None, Decimal(2), "u", ["name"]),
        (1, None, None, "d", None),
        (None, None, None, "t", None),
    ]
    assert {row["_ts"] for row in rows} == {AT}
    assert [row["_position"] for row in rows] == [
        f"{0:020}.{lsn:020}.{number:020}" for lsn, number in ((7, 100), (8, 101), (9, 102), (10, 104))
    ]
    assert [row["_position"] for row in rows] == sorted(row["_position"] for row in rows)


def test_records_of_several_schemas_keep_their_order() -> None:
    wider = [*FIELDS, {"field": "extra", "type": "int64", "optional": True}]
    values = [event("c", None, {"id": 0, "name": "", "amount": None})]
    values += [
        event(
            "c", None, {"id": n, "name": "", "amount": None, **({"extra": n} if n % 2 else {})}, fields=wider if n % 2 else FIELDS
        )
        for n in range(1, 6)
    ]
    rows = decoded(*values, columns=[*COLUMNS, ("extra", pa.int64())])
    assert [(row["id"], row["extra"]) for row in rows] == [(n, n if n % 2 else None) for n in range(6)]


def test_rows_in_frames_are_those_of_their_whole_messages() -> None:
    row = {"id": 1, "name": "a", "amount": TWO_DOLLARS}
    values = [event("r", None, {**row, "id": number}, lsn=number // 2) for number in range(4)]
    values += [event("d", {**row, "id": 4}), event("u", {**row, "id": 4}, {**row, "id": 5})]
    texts = [b"{%s" % value.partition(b',"payload":{')[2][:-1] for value in values]
    parts = [text.partition(b'"after":') for text in texts]
    schemas = SchemaTexts({})
    runs = []
    for value, (before, name, rest) in zip(values, parts, strict=True):
        inner, after = (
            (rest[:4], rest[4:]) if rest.startswith(b"null") else (rest[: rest.index(b"}") + 1], rest[rest.index(b"}") + 1 :])
        )
        prefix = value[: -len(before + name + rest) - 1]
        runs.append((Run(TOPIC, [None], [inner], value_prefix=prefix, value_frame=(before + name, after)), NOW_MS))
    runs.insert(2, (Run(TOPIC, [None, None], [values[1], None]), NOW_MS))
    wanted = pa.schema([*COLUMNS, *ADDED_COLUMNS])
    for part in (runs[:2], runs[:4], runs):
        built = build_segment(part, schemas)
        messages = restore_bytes(built, "value", schemas.unstored).to_pylist()
        assert set(messages) <= {*values, None}
        found = TypedRows(TOPIC, wanted, ignores_others=False).decode(built, 100, schemas.unstored)
        (whole, texts_of_whole) = stored(*messages)
        expected = TypedRows(TOPIC, wanted, ignores_others=False).decode(whole, 100, texts_of_whole)
        assert found.to_pylist() == expected.to_pylist()
        assert found.num_rows == len(messages) - messages.count(None)


@pytest.mark.parametrize(
    ("op", "row", "reason"),
    [("ignored", b'{"id":1,"name":"a"}', "op is 'ignored'"), ("c", b"null", "after is null, and op is 'c'")],
)
def test_rows_in_frames_need_an_operation_of_change_events_and_a_row(op: str, row: bytes, reason: str) -> None:
    prefix, name, payload = event(op, None, {}, fields=FIELDS[:2]).partition(b',"payload":')
    before, _, after = payload[:-1].partition(b"{}")
    schemas = SchemaTexts({})
    run = Run(TOPIC, [None], [row], value_prefix=prefix + name, value_frame=(before, after))
    built = build_segment([(run, NOW_MS)], schemas)
    typed = TypedRows(TOPIC, pa.schema(COLUMNS[:2]), ignores_others=False)
    with pytest.raises(DataError, match=f"offset 100: {reason}"):
        typed.decode(built, 100, schemas.unstored)


def test_part_of_a_segment_without_rows_of_the_table_has_none() -> None:
    rows, schemas = stored(event("c", after={"id": 1}))
    typed = TypedRows(TOPIC, pa.schema(COLUMNS), ignores_others=False)
    found = typed.decode(rows.slice(1), 1, schemas)
    assert (found.num_rows, found.schema) == (0, pa.schema(COLUMNS))


def test_plain_records_have_no_operation() -> None:
    schema = {"type": "struct", "fields": FIELDS[:2]}
    value = json.dumps({"schema": schema, "payload": {"id": 3, "name": None}}, separators=(",", ":")).encode()
    (row,) = decoded(value, columns=COLUMNS[:2])
    assert row == {"id": 3, "name": None, "_op": None, "_ts": None, "_position": f"{100:020}", "_unchanged": None}


def test_new_column_is_refused_by_name_unless_the_user_gave_the_columns() -> None:
    value = event("c", None, {"id": 1, "name": "a", "amount": None})
    with pytest.raises(DataError, match=f"topic {TOPIC}, row 100 of the spool.*new column name.*Start the query again"):
        decoded(value, columns=COLUMNS[:1])
    (row,) = decoded(value, columns=COLUMNS[:1], ignores_others=True)
    assert row["id"] == 1


def test_value_that_does_not_fit_is_refused_with_its_column() -> None:
    value = event("c", None, {"id": 300, "name": "a", "amount": None})
    with pytest.raises(DataError, match="column id of type int32 does not fit the query's int8"):
        decoded(value, columns=[("id", pa.int8()), *COLUMNS[1:]])


def of_type(type_: str, *values: Any) -> list[bytes]:
    fields = [{"field": "v", "type": type_, "optional": True}]
    return [event("c", None, {"v": value}, fields=fields) for value in values]


@pytest.mark.parametrize(
    ("type_", "value", "wanted"),
    [
        ("double", 1e300, pa.float32()),
        ("double", 0.1, pa.float32()),
        ("int32", 5, pa.bool_()),
        ("int64", 5, pa.timestamp("us", "UTC")),
        ("int64", 2**53 + 1, pa.float64()),
        ("double", 1.5, pa.int32()),
        ("string", "5", pa.int32()),
        ("int32", 5, pa.string()),
    ],
)
def test_value_that_would_become_another_one_is_refused_with_row_and_column(type_: str, value: Any, wanted: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"row 100 of the spool.*: column v of type .* does not fit the query's"):
        decoded(*of_type(type_, value), columns=[("v", wanted)], ignores_others=True)


def test_error_names_the_row_with_the_value_that_does_not_fit() -> None:
    with pytest.raises(DataError, match=r"row 102 of the spool.* int8: 128\."):
        decoded(*of_type("int32", 1, 2, 128, 3), columns=[("v", pa.int8())], ignores_others=True)


@pytest.mark.parametrize(
    ("type_", "value", "wanted"), [("int32", 5, pa.int64()), ("int64", 5, pa.int8()), ("float", 0.5, pa.float64())]
)
def test_value_that_fits_the_given_type_is_read(type_: str, value: Any, wanted: pa.DataType) -> None:
    (row,) = decoded(*of_type(type_, value), columns=[("v", wanted)], ignores_others=True)
    assert row["v"] == value


def test_placeholder_of_the_connector_is_recognized() -> None:
    values = of_type("string", "nothing", UNAVAILABLE)
    rows = decoded(*values, columns=[("v", pa.string())], unavailable="nothing")
    assert [(row["v"], row["_unchanged"]) for row in rows] == [(None, ["v"]), (UNAVAILABLE, None)]


def test_records_have_the_columns_of_spark_s_kafka_source() -> None:
    value = event("c", None, {"id": 1, "name": "a", "amount": None})
    rows, schemas = stored(value, None)
    found = records_of(rows, 5, schemas)
    assert found.schema == RECORDS
    listed = found.to_pylist()
    assert [(row["topic"], row["offset"], row["partition"]) for row in listed] == [
        (TOPIC, 5, 0), (TOPIC, 6, 0), ("shop.public.other", 7, 0)
    ]  # fmt: skip
    assert [row["value"] for row in listed] == [value, None, b"x"]
    assert listed[0]["timestamp"] == dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)


def test_columns_are_those_of_all_schemas_that_the_spool_has() -> None:
    wider = [*FIELDS, {"field": "extra", "type": "int64", "optional": True}]
    _, first = stored(event("c"))
    _, second = stored(event("c", fields=wider))
    found = columns_of([first["0"], second["0"]])
    assert [(field.name, field.type) for field in found] == [*COLUMNS, ("extra", pa.int64())]
    changed = [{**FIELDS[0], "type": "string"}, *FIELDS[1:]]
    _, third = stored(event("c", fields=changed))
    with pytest.raises(DataError, match="a column of the table has changed its type"):
        columns_of([first["0"], third["0"]])


def test_table_is_found_by_its_topic_or_the_end_of_it() -> None:
    topics = ["shop.public.orders", "shop.sales.orders", "lines"]
    assert topic_of_table("shop.public.orders", topics) == "shop.public.orders"
    assert topic_of_table("public.orders", topics) == "shop.public.orders"
    assert topic_of_table("lines", topics) == "lines"
    assert topic_of_table("rders", topics) is None
    with pytest.raises(DataError, match=r"could be any of the topics shop.public.orders, shop.sales.orders"):
        topic_of_table("orders", topics)
    assert "did you mean public.orders" in unknown_table("public.odrers", topics[:1]).message


def test_topic_that_appears_later_does_not_take_the_place_of_another_one() -> None:
    assert topic_of_table("orders", ["shop.orders"]) == "shop.orders"
    with pytest.raises(DataError, match=r"table orders could be any of the topics shop.orders, orders: .*RegexRouter"):
        topic_of_table("orders", ["shop.orders", "orders"])
    assert topic_of_table("shop.orders", ["shop.orders", "orders"]) == "shop.orders"
    assert topic_of_table("orders", ["orders", "shop.orders"]) == "orders"
