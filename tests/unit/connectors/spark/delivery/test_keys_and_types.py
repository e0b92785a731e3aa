"""What a task knows of its table decides how records without a schema are read: its columns now, and its key columns."""

from __future__ import annotations

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from connect.converters.json.converter import JsonConverter
from connect.errors import DataError
from connectors.spark.config import SparkSinkConfig, parse_config
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.tolerant_decoding import decode_raw_tolerantly
from connectors.spark.decode.topic_decoder import TopicDecoder
from connectors.spark.delivery.topic_decoders import TopicContents, TopicDecoders
from connectors.spark.iceberg_sink.config import parse_config as parse_iceberg_config
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.projection import concat_batches
from connectors.spark.plan.row_limits import NO_LIMITS
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.plan.truncates import NO_FEEDS
from connectors.spark.tables.planned_rows import latest_rows, rows_to_append, split_bad_records


def config(**more: str) -> SparkSinkConfig:
    own = {key.replace("__", "."): value for key, value in more.items()}
    return parse_config({"name": "c", "topics": "t", "table.location": "lake", "metadata.columns": "none", **own})


class Task:
    """Reads records of the topic t, JSON without schemas, for the table ``columns``."""

    def __init__(self, settings: SparkSinkConfig, columns: Columns | None, table: str = "t") -> None:
        self.settings = settings.of_table(table)
        self.columns = columns
        self.table = table
        converter = JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        self._decoders = TopicDecoders(settings, converter, converter, self._known)
        self._offset = 0

    def _known(self, topic: str) -> tuple[str, Columns] | None:
        return None if self.columns is None else (self.table, self.columns)

    def decode(self, *records: tuple[Any, Any]) -> tuple[list[ChangeBatch], list[str]]:
        """The changes of records (key and value), and the errors of those that are errant."""
        found, bad = decode_raw_tolerantly(self.decoder, self.raw(*records), self._offset)
        self._offset += len(records)
        return found, [one.reason.message for one in bad]

    def raw(self, *records: tuple[Any, Any]) -> RawBuffer:
        encoded = [[None if one is None else json.dumps(one).encode() for one in column] for column in zip(*records, strict=True)]
        offsets = list(range(self._offset, self._offset + len(records)))
        return RawBuffer("t", [0] * len(records), offsets, encoded[0], encoded[1])

    @property
    def decoder(self) -> TopicDecoder:
        return self._decoders.get("t", "t")

    def drop_types(self) -> None:
        """As after an errant record."""
        self._decoders.drop({"t"})

    def contents(self) -> TopicContents:
        return self._decoders.contents()

    def learn(self, other: Task) -> None:
        """As from an executor."""
        self._decoders.learn(other.contents())

    def rows(self, *records: tuple[Any, Any], keys: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        changes, errors = self.decode(*records)
        assert errors == []
        prepared = RowPreparation(self.table, self.settings).prepare(self.columns, changes, keys or self.settings.key_columns)
        if prepared is None:
            return []
        if not self.settings.upserts:
            return list(rows_to_append(prepared, self.settings).to_pylist())
        rows, latest = latest_rows(concat_batches(prepared.changes), prepared, self.settings)
        return [row for row, gone in zip(rows.to_pylist(), latest.deleted.to_pylist(), strict=True) if not gone]


UPSERT = config(write__mode="upsert")


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (pa.date32(), "2024-01-01", "2024-01-01"),
        (pa.decimal128(10, 2), 1.5, "1.50"),
        (pa.timestamp("us", "UTC"), "2024-01-01T00:00:00Z", "2024-01-01 00:00:00+00:00"),
        (pa.binary(), "AA==", "b'\\x00'"),
        (pa.float32(), 1.5, "1.5"),
    ],
    ids=str,
)
@pytest.mark.parametrize("has_value", [True, False])
def test_record_keys_have_the_types_of_the_tables_columns(type_: pa.DataType, text: Any, value: str, has_value: bool) -> None:
    task = Task(UPSERT, {"k": type_, "v": pa.string()})
    changes, errors = task.decode(({"k": text}, {"k": text, "v": "x"} if has_value else None))
    assert errors == []
    (batch,) = changes
    assert batch.keys is not None
    assert [str(key) for key in batch.keys["k"].to_pylist()] == [value]
    assert task.rows(({"k": text}, {"k": text, "v": "x"}), keys=("k",))[0]["v"] == "x"


def test_a_column_that_was_added_meanwhile_gives_its_type() -> None:
    task = Task(config(), {"id": pa.int64()})
    assert task.rows((None, {"id": 1})) == [{"id": 1}]
    task.columns = {"id": pa.int64(), "day": pa.date32()}
    assert str(task.rows((None, {"id": 2, "day": "2024-01-01"}))[0]["day"]) == "2024-01-01"


def test_null_in_a_column_that_the_decoder_has_seen_no_value_of_is_no_missing_field() -> None:
    task = Task(config(write__mode="upsert", missing__columns="keep", key__columns="id"), {"id": pa.int64(), "v": pa.string()})
    changes, _ = task.decode((None, {"id": 1, "v": "x", "note": None}), (None, {"id": 2, "v": "x", "o": {}}))
    task.columns = {"id": pa.int64(), "v": pa.string(), "note": pa.string(), "o": pa.string()}
    prepared = RowPreparation("t", task.settings).prepare(task.columns, changes, ("id",))
    assert prepared is not None
    _, latest = latest_rows(concat_batches(prepared.changes), prepared, task.settings)
    assert {name: mask.to_pylist() for name, mask in latest.keep.items()} == {"note": [False, True], "o": [True, False]}


def event(op: str, before: Any, after: Any) -> dict[str, Any]:
    return {"op": op, "source": {"ts_ms": 1}, "before": before, "after": after}


def test_one_foreign_record_does_not_make_change_events_plain_records() -> None:
    task = Task(UPSERT, {"id": pa.int64(), "v": pa.string()})
    task.decode(({"id": 9}, {"id": 9, "hello": "x"}))
    rows = task.rows(
        ({"id": 1}, event("c", None, {"id": 1, "v": "a"})), ({"id": 2}, event("u", None, {"id": 2, "v": "b"})), keys=("id",)
    )
    assert [(row["id"], row["v"]) for row in rows] == [(1, "a"), (2, "b")]
    other = Task(UPSERT, {"id": pa.int64(), "v": pa.string()})
    other.decode(({"id": 1}, event("c", None, {"id": 1, "v": "a"})))
    _, errors = other.decode(*(({"id": number}, {"id": number, "v": "x"}) for number in range(7, 10)))
    assert len(errors) == 3


def test_events_without_rows_need_no_columns() -> None:
    task = Task(config(write__mode="upsert", table__name__format="${table}", key__columns="id"), None)
    changes, errors = task.decode((None, event("t", None, None)))
    assert (errors, [part.meta["op"].to_pylist() for part in changes]) == ([], [["t"]])
    _, (error,) = task.decode((None, event("c", None, {})))
    assert "no field of these records has had a value yet" in error


def test_a_foreign_key_makes_no_later_record_errant() -> None:
    task = Task(UPSERT, {"id": pa.int64(), "v": pa.string()})
    foreign, _ = task.decode(({"id": 1, "x": 5}, {"id": 1, "v": "a"}))
    later, _ = task.decode(({"id": 2}, {"id": 2, "v": "b"}))  # before the table has refused the foreign one
    rows = RowPreparation("t", task.settings)
    for part, bad in ((foreign, [0]), (later, [])):
        assert [one.offset for one in split_bad_records(rows, task.columns, NO_LIMITS, ("id",), part, NO_FEEDS)[1]] == bad
    prepared = rows.prepare(task.columns, later, ("id",))
    assert prepared is not None
    assert prepared.changes[0].image.to_pylist() == [{"id": 2, "v": "b"}]


def test_a_single_key_must_be_that_of_the_row() -> None:
    task = Task(config(write__mode="upsert", key__columns="id"), {"id": pa.int64(), "v": pa.string()})
    assert task.rows((1, event("c", None, {"id": 1, "v": "a"}))) == [{"id": 1, "v": "a"}]
    nan = Task(config(write__mode="upsert", key__columns="x"), {"x": pa.float64()})
    assert nan.decode((math.nan, {"x": math.nan}))[1] == []
    _, (error,) = task.decode((7, event("c", None, {"id": 1, "v": "a"})))
    assert "the record key is the single value 7, which key.columns takes for that of the column id, and the row has 1" in error


def test_a_single_key_is_not_needed_where_rows_have_their_key_columns() -> None:
    both = {"a": 1, "b": 2, "v": "x"}
    assert Task(config(write__mode="upsert", key__columns="a,b"), None).rows(("1-2", both)) == [both]
    ice = {
        "name": "c",
        "topics": "t",
        "iceberg.tables": "db.t",
        "iceberg.catalog.type": "rest",
        "iceberg.catalog.uri": "http://x",
    }
    two = parse_iceberg_config(
        {**ice, "iceberg.tables": "db.t,db.u", "write.mode": "upsert", "iceberg.table.db.t.id-columns": "a"}
    )
    assert Task(two, None, "db.t").rows(("k", both)) == [both]
    one = parse_iceberg_config({**ice, "write.mode": "upsert", "iceberg.table.db.t.id-columns": "a"})
    changes, _ = Task(one, None, "db.t").decode((1, None))
    assert [part.keys and part.keys.to_pylist() for part in changes] == [[{"a": 1}]]


def test_ignored_tombstones_need_no_key() -> None:
    task = Task(config(append__tombstones="ignore"), {"id": pa.int64()})
    assert task.rows(("k1", {"id": 1}), ("k1", None)) == [{"id": 1}]


def test_a_row_whose_own_key_has_another_type_is_not_that_of_its_key() -> None:
    settings = config(write__mode="upsert", schema__evolution="lenient")
    task = Task(settings, {"id": pa.int64(), "v": pa.string(), "_rescued_data": pa.string()})
    with pytest.raises(DataError, match="offset 0: the value of the key column id does not have the type of the column"):
        task.rows(({"id": 1}, {"id": "x", "v": "a"}), keys=("id",))


def test_contracts_and_renames_name_the_same_columns() -> None:
    more = {"schema.contract": "drop_column", "schema.contract.overrides": r"t\.email:freeze", "column.renames": "e_mail:email"}
    task = Task(config(**{key.replace(".", "__"): value for key, value in more.items()}), {"id": pa.int64(), "email": pa.int64()})
    with pytest.raises(Exception, match="its schema contract is freeze"):
        task.rows((None, {"id": 1, "e_mail": "x"}))
