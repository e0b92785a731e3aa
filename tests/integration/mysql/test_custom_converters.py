"""Custom converters with a real MariaDB: snapshots and the stream have the same schemas, values, and keys."""

from __future__ import annotations

from typing import Any

import pytest

from connect.record import SourceRecord
from tests.integration.mysql.conftest import MariaDbRunningSource
from tests.integration.mysql.signaling import SignaledSource
from tests.support.custom_converters import check_rejected_prices

_BINLOG = "io.debezium.connector.binlog.converters"
_CONVERTERS = {
    "converters": "sink,flags,cents",
    "flags_type": f"{_BINLOG}.TinyIntOneToBooleanConverter",
    "sink_type": f"{_BINLOG}.JdbcSinkDataTypesConverter",
    "sink_selector_boolean": r".*\.t\.on_sale",
    "sink_selector_real": r".*\.t\.weight",
    "sink_selector_string": r".*\.t\.(code|name)",
    "cents_type": "tests.support.custom_converters:Cents",
}
_TABLE = """CREATE TABLE t (
    id INT, on_sale BOOLEAN NOT NULL DEFAULT TRUE, is_new TINYINT(1), rank TINYINT, weight FLOAT,
    code CHAR(3) CHARACTER SET latin1, name VARCHAR(20), price DECIMAL(9, 2) NOT NULL DEFAULT 1.50, PRIMARY KEY (id, price))"""
_ROWS = "({}, {}, {}, 5, 0.1, 'a\u00e9', 'x\u20ac', {})"


def row(*values: Any) -> dict[str, Any]:
    names = ("id", "on_sale", "is_new", "rank", "weight", "code", "name", "price")
    return dict(zip(names, values, strict=True))


def after(records: list[SourceRecord]) -> dict[int, dict[str, Any]]:
    """The rows of table t by their id."""
    found = (r.value["after"].as_dict() for r in records if r.topic.endswith(".t") and r.value is not None)
    return {one["id"]: one for one in found if one is not None}


def schemas(record: SourceRecord) -> tuple[Any, Any]:
    return record.key_schema, record.value_schema


EXPECTED = {
    1: row(1, 1, True, 5, 0.10000000149011612, "a\u00e9", "x\u20ac", 225),
    2: row(2, 0, None, 5, 0.10000000149011612, "a\u00e9", "x\u20ac", 150),
    3: row(3, 1, False, 5, 0.10000000149011612, "a\u00e9", "x\u20ac", -5),
}


def test_snapshot_stream_and_incremental_snapshot_are_converted_alike(source: MariaDbRunningSource) -> None:
    signaled = SignaledSource(source)
    source.sql(_TABLE)
    insert = "INSERT INTO t VALUES " + ", ".join(
        [_ROWS.format(1, "TRUE", -3, 2.25), _ROWS.format(2, "FALSE", "NULL", 1.5), _ROWS.format(3, 1, 0, -0.05)]
    )
    source.sql(insert)
    source.start(signal_data_collection=f"{source.database}.signals", **_CONVERTERS)
    snapshot = source.read(3)
    source.until("streaming")
    assert after(snapshot) == EXPECTED
    source.sql("DELETE FROM t", insert)
    streamed = [record for record in source.read(9) if record.value is not None]
    deleted, created = streamed[:3], streamed[3:]
    assert after(created) == EXPECTED
    assert sorted(record.value["before"]["price"] for record in deleted) == [-5, 150, 225]
    assert [record.key.as_dict() for record in created] == [{"id": n, "price": EXPECTED[n]["price"]} for n in EXPECTED]
    signaled.request("t")
    again = signaled.until_read()
    assert after(again) == EXPECTED
    reads = [record for record in again if record.topic.endswith(".t")]
    assert len({schemas(record) for record in (*snapshot, *streamed, *reads)}) == 1
    for record in (*snapshot, *streamed, *reads):
        record.value.validate()
        record.key.validate()
    fields = {field.name: field.schema for field in snapshot[0].value["after"].schema.fields}
    assert {name: (schema.type.name, schema.default) for name, schema in fields.items()} == {
        "id": ("INT32", None), "on_sale": ("INT16", 1), "is_new": ("BOOLEAN", None), "rank": ("INT8", None),
        "weight": ("FLOAT64", None), "code": ("STRING", None), "name": ("STRING", None), "price": ("INT64", 150),
    }  # fmt: skip
    assert fields["code"].parameters == {"__debezium.source.column.character_set": "latin1"}
    assert fields["name"].parameters == {"__debezium.source.column.character_set": "utf8mb4"}


def test_structure_changes_in_the_stream_choose_converters_again(source: MariaDbRunningSource) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, f TINYINT)")
    source.begin(**_CONVERTERS)
    source.sql(
        "INSERT INTO t VALUES (1, 3)",
        "ALTER TABLE t MODIFY f TINYINT(1), ADD price DECIMAL(9, 2)",
        "INSERT INTO t VALUES (2, 3, 0.5)",
        "ALTER TABLE t MODIFY f INT",
        "INSERT INTO t VALUES (3, 3, NULL)",
    )
    values = [record.value["after"].values[1:] for record in source.read(3)]
    assert values == [[3], [True, 50], [3, None]]


@pytest.mark.parametrize("mode", [None, "warn"])
def test_values_that_a_converter_rejects_are_errors_of_their_row(source: MariaDbRunningSource, mode: str | None) -> None:
    source.sql("CREATE TABLE t (id INT PRIMARY KEY, price DECIMAL(12, 2))")
    source.sql("INSERT INTO t VALUES (1, 1), (2, 2000000), (3, 3)")
    source.start(**_CONVERTERS, **({} if mode is None else {"event_converting_failure_handling_mode": mode}))
    snapshot = source.read(3)
    source.until("streaming")
    source.sql("INSERT INTO t VALUES (4, 1), (5, 2000000), (6, 3)")
    found = [*snapshot, *source.read(3)]
    check_rejected_prices(found, f"{source.database}.t", mode)
