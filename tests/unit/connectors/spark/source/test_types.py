"""Values of every column type reach records and JSON without loss."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.converters.json.converter import JsonConverter
from connect.converters.simple_header import SimpleHeaderConverter
from connect.errors import ConnectError
from connect.testing import SourceHarness
from connect.text_records import MixedTextRecords
from connectors.spark.decode.variant import VARIANT, Date, Timestamp, encode_variant
from connectors.spark.source.task import SparkSourceTask
from connectors.spark.variant_columns import VariantColumns
from tests.support.delta_writer import DeltaWriter
from tests.support.replayed_events import FAST, in_json, plain, read_all
from worker.source.text_encoding import encode_mixed_texts
from worker.tasks.converters import Converters

UTC = dt.UTC
NESTED = pa.struct([("at", pa.timestamp("us", "UTC")), ("days", pa.list_(pa.date32())), ("n", pa.decimal128(9, 3))])
WITH_DOCUMENTS = pa.struct([("doc", VARIANT), ("docs", pa.list_(VARIANT))])
COLUMNS: dict[str, pa.DataType] = {
    "id": pa.int64(),
    "tiny": pa.int8(),
    "small": pa.int16(),
    "int": pa.int32(),
    "float": pa.float32(),
    "double": pa.float64(),
    "yes": pa.bool_(),
    "text": pa.string(),
    "bytes": pa.binary(),
    "money": pa.decimal128(38, 10),
    "whole": pa.decimal128(20, 0),
    "day": pa.date32(),
    "at": pa.timestamp("us", "UTC"),
    "clock": pa.timestamp("us"),
    "list": pa.list_(NESTED),
    "map": pa.map_(pa.string(), pa.timestamp("us")),
    "nested": NESTED,
    "doc": VARIANT,
    "docs": pa.map_(pa.string(), WITH_DOCUMENTS),
}
_days = st.dates()
_moments = st.datetimes()
_inner = st.fixed_dictionaries(
    {
        "at": st.none() | _moments.map(lambda m: m.replace(tzinfo=UTC)),
        "days": st.none() | st.lists(st.none() | _days, max_size=2),
        "n": st.none() | st.decimals(-999999, 999999, places=3),
    }
)
_documents = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.decimals(-(10**9), 10**9, places=6) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(1 << 63), (1 << 63) - 1),
    "tiny": st.integers(-128, 127),
    "small": st.integers(-(1 << 15), (1 << 15) - 1),
    "int": st.integers(-(1 << 31), (1 << 31) - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "yes": st.booleans(),
    "text": _texts,
    "bytes": st.binary(max_size=8),
    "money": st.decimals(-(10**27), 10**27, places=10),
    "whole": st.decimals(-(10**19), 10**19, places=0),
    "day": _days,
    "at": _moments.map(lambda m: m.replace(tzinfo=UTC)),
    "clock": _moments,
    "list": st.lists(st.none() | _inner, max_size=2),
    "map": st.dictionaries(_texts, st.none() | _moments, max_size=2),
    "nested": _inner,
    "doc": _documents.map(lambda node: document(node)),
}
ROWS = st.lists(
    st.fixed_dictionaries({"id": VALUES["id"]}, optional={n: st.none() | s for n, s in VALUES.items() if n != "id"}),
    min_size=1,
    max_size=4,
)


def document(node: Any) -> dict[str, bytes]:
    """A VARIANT as a file has it."""
    return encode_variant(node)._asdict()


def _converters(decimals: str) -> Converters:
    key, value = JsonConverter(), JsonConverter()
    key.configure({}, True)
    value.configure({"decimal.format": decimals}, False)
    return Converters(key, value, SimpleHeaderConverter())


@given(rows=ROWS)
def test_json_of_columns_equals_json_of_records(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    table = DeltaWriter(tmp_path_factory.mktemp("t") / "t", COLUMNS).create()
    table.insert([{**row, "map": list(row["map"].items()) if row.get("map") is not None else None} for row in rows])
    config = {**FAST, "source.location": str(table.folder), "key.columns": "id", "source.start": "1"}
    task = SparkSourceTask()
    with SourceHarness(task, config):
        batch = task.poll()
    assert isinstance(batch, MixedTextRecords)
    for decimals in ("BASE64", "NUMERIC"):
        converters = _converters(decimals)
        runs = encode_mixed_texts(converters, batch, lambda _: [])
        assert runs is not None
        fast = [pair for run in runs for pair in zip(run.keys, run.values, strict=True)]
        assert fast == [in_json(record, converters.key, converters.value) for record in batch]


def test_values_have_the_types_that_the_sink_reads_back(tmp_path: Path) -> None:
    from connectors.spark.decode.arrow_types import row_for_schema

    moment = dt.datetime(2024, 2, 29, 12, 30, 1, 5)
    inner = {"at": moment.replace(tzinfo=UTC), "days": [dt.date(1969, 12, 31), None], "n": decimal.Decimal("-1.500")}
    row = {
        "id": 1,
        "money": decimal.Decimal("0.0000000001"),
        "whole": decimal.Decimal(10**19),
        "day": dt.date(1, 1, 1),
        "at": moment.replace(tzinfo=UTC),
        "clock": moment,
        "list": [inner, None],
        "map": [("k", moment)],
        "nested": inner,
        "bytes": b"\x00\xff",
        "float": 0.5,
        "doc": document({"n": [decimal.Decimal("1.50"), 10**30], "at": Timestamp(0, True), "day": Date(-1)}),
        "docs": [("k", {"doc": document("x"), "docs": [document(None), None]})],
    }
    table = DeltaWriter(tmp_path / "t", COLUMNS).create([row])
    (record,) = read_all(table.folder)
    after = plain(record.value)["after"]
    assert after["at"] == "2024-02-29T12:30:01.000005Z"
    assert after["clock"] == 1_709_209_801_000_005
    assert after["day"] == -719_162
    assert after["list"] == [{"at": "2024-02-29T12:30:01.000005Z", "days": [-1, None], "n": decimal.Decimal("-1.500")}, None]
    assert after["doc"] == '{"at":"1970-01-01T00:00:00+00:00","day":"1969-12-31","n":[1.50,1000000000000000000000000000000]}'
    assert {name: plain(one) for name, one in after["docs"].items()} == {"k": {"doc": '"x"', "docs": ["null", None]}}
    assert record.value_schema is not None
    struct = record.value.get("after")
    column = row_for_schema(struct.schema, VariantColumns(json=True))
    assert (column.table.field("doc").type, column.table.field("docs").type) == (VARIANT, COLUMNS["docs"])
    read_back = column.finish(pa.array([column.prepare(struct)], column.stored)).to_pylist()[0]
    expected = {name: row.get(name) for name in COLUMNS}
    # JSON has no dates.
    expected["doc"] = document({"n": [decimal.Decimal("1.50"), 10**30], "at": "1970-01-01T00:00:00+00:00", "day": "1969-12-31"})
    assert read_back == expected


@pytest.mark.parametrize(
    ("node", "words"),
    [
        ({"at": [Timestamp(10**18, False)]}, r"column doc of table .*: a VARIANT has the date 1000000000000000000 microseconds"),
        (
            Date(10**7),
            r"column doc of table .*: a VARIANT has the date 10000000 days from 1970, which is outside the years 1 to 9999",
        ),
    ],
)
def test_document_with_a_date_that_has_no_text_is_refused(tmp_path: Path, node: Any, words: str) -> None:
    table = DeltaWriter(tmp_path / "t", {"id": pa.int64(), "doc": VARIANT}).create([{"id": 1, "doc": document(node)}])
    with pytest.raises(ConnectError, match=words):
        read_all(table.folder)


def test_timestamps_of_spark_without_a_unit_are_read(tmp_path: Path) -> None:
    """Spark writes timestamps as INT96 by default, also in nested values."""
    columns = {"id": pa.int64(), "at": pa.timestamp("us", "UTC"), "l": pa.list_(pa.timestamp("us", "UTC"))}
    table = DeltaWriter(tmp_path / "t", columns).create([{"id": 1}])
    moment = dt.datetime(1600, 1, 1, 0, 0, 0, 7)
    file = table.folder / "part-1.parquet"
    rows = pa.table(
        {"id": [1], "at": pa.array([moment], pa.timestamp("us")), "l": pa.array([[moment]], pa.list_(pa.timestamp("us")))}
    )
    pa.parquet.write_table(rows, file, use_deprecated_int96_timestamps=True, store_schema=False)
    (record,) = read_all(table.folder)
    text = "1600-01-01T00:00:00.000007Z"
    assert plain(record.value)["after"] == {"id": 1, "at": text, "l": [text]}
