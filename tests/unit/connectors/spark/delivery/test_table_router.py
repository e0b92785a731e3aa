"""Which table a record goes to, tombstones above all: they have no source block."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from connectors.spark.config import TableConfig, parse_config
from connectors.spark.decode.change_batch import IGNORED, ChangeBatch
from connectors.spark.delivery.table_router import TableRouter
from connectors.spark.iceberg_sink.config import parse_config as parse_iceberg_config
from connectors.spark.plan.rows import RowPreparation
from tests.unit.connectors.spark.delivery.fakes import changes, offsets_of

PROPS = {"name": "lake", "topics": "t", "table.location": "/lake"}
GONE = ["tombstone"]


@pytest.fixture
def router() -> TableRouter:
    return TableRouter(parse_config({**PROPS, "table.name.format": "${table}", "write.mode": "upsert"}))


def routed(router: TableRouter, *batches: ChangeBatch) -> list[tuple[str, list[int]]]:
    found, bad_records = router.route("t", batches)
    assert not bad_records
    return [(table, offsets_of([part])) for table, part in found]


def test_names_from_the_topic_need_no_source() -> None:
    router = TableRouter(parse_config(PROPS))
    assert routed(router, changes([1, 2], ops=["c", "tombstone"])) == [("t", [1, 2])]
    assert router.tables_of("t") == {"t"}


def test_records_are_divided_by_their_source(router: TableRouter) -> None:
    assert routed(router, changes([1, 2, 3], ops=["c"] * 3, tables=["a", "b", "a"])) == [("a", [1, 3]), ("b", [2])]
    assert router.tables_of("t") == {"a", "b"}


def test_tombstones_that_name_no_table_are_ignored_and_counted(router: TableRouter, caplog: pytest.LogCaptureFixture) -> None:
    assert routed(router, changes([4, 5], ops=GONE * 2)) == []
    assert routed(router, changes([6], ops=GONE)) == []
    assert router.ignored_tombstones == 3
    (message,) = (record.getMessage() for record in caplog.records)
    assert "topic t, from offset 4 of partition 0 on" in message


def test_tombstone_deletes_no_row_of_the_only_table_that_a_topic_had_so_far(router: TableRouter) -> None:
    """Its own table may be one whose events log compaction has removed but for the tombstone."""
    router.add_tables("t", ["a"])
    keys = pa.table({"id": [1, 1]})
    batch = changes([1, 2], ops=["c", "tombstone"], tables=["a", None], keys=keys)
    found, bad_records = router.route("t", [batch])
    assert [(table, part.meta["op"].to_pylist()) for table, part in found] == [("a", ["c"]), ("a", [IGNORED])]
    assert (bad_records, router.ignored_tombstones) == ([], 1)
    for mode in ("upsert", "append"):
        config = TableConfig(mode, ("id",), "hard", "add", (), keep_tombstones=True)
        prepared = RowPreparation("a", config).prepare({"id": pa.int64()}, [part for _, part in found], ("id",))
        assert prepared is not None
        assert [row for part in prepared.changes for row in part.image.to_pylist()] == [{"id": 1}]


def test_records_without_a_table_name_are_refused_although_their_topic_has_one_table(router: TableRouter) -> None:
    router.add_tables("t", ["a"])
    found, bad_records = router.route("t", [changes([7])])
    assert (found, len(bad_records)) == ([], 1)


def test_a_change_without_a_table_name_is_a_bad_record(router: TableRouter) -> None:
    found, bad_records = router.route("t", [changes([7], ops=["c"])])
    assert not found
    assert bad_records[0].offset == 7
    assert "offset 7: " in bad_records[0].reason.message
    assert "source.table" in bad_records[0].reason.message


def test_changelogs_get_the_records_of_their_tables() -> None:
    config = parse_config({**PROPS, "table.name.format": "${table}", "write.mode": "both"})
    router = TableRouter(config)
    router.add_tables("t", ["a_changelog"])  # found at the start
    assert routed(router, changes([1, 2], ops=["c"] * 2, tables=["a", "b"]), changes([3], ops=GONE)) == [
        ("a", [1]),
        ("b", [2]),
        ("a_changelog", [1]),
        ("b_changelog", [2]),
    ]
    assert router.tables_of("t") == {"a", "a_changelog", "b", "b_changelog"}
    assert router.current_tables_of("t") == {"a", "b"}
    assert router.ignored_tombstones == 1


def routed_by_field(
    values: pa.Array, ops: list[str | None] | None = None, /, **properties: str
) -> tuple[list[tuple[str, list[int]]], list[tuple[int, str]]]:
    """The offsets by table, and the offsets and errors of the bad records."""
    config = parse_iceberg_config(
        {
            "name": "lake", "topics": "t", "iceberg.tables.dynamic-enabled": "true", "iceberg.tables.route-field": "f",
            "iceberg.tables.default-id-columns": "id", **properties,
        }
    )  # fmt: skip
    batch = changes(range(len(values)), ops=ops)
    batch = replace(batch, image=batch.image.append_column("f", values))
    found, bad_records = TableRouter(config).route("t", [batch])
    return [(table, offsets_of([part])) for table, part in found], [(bad.offset, bad.reason.message) for bad in bad_records]


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (pa.array([None, {"x": 1}, None]), "the field f has several values, and not a text"),
        (pa.array([None, [], None], pa.list_(pa.string())), "the field f has several values, and not a text"),
        (pa.array([b"db.a", b"\xff", b"db.b"]), "the field f is no text"),
    ],
    ids=["object", "array", "bytes"],
)
def test_a_record_whose_route_field_is_no_text_is_a_bad_record(values: pa.Array, reason: str) -> None:
    found, bad_records = routed_by_field(values)
    assert found == ([("db.a", [0]), ("db.b", [2])] if pa.types.is_binary(values.type) else [])
    ((offset, message),) = bad_records
    assert offset == 1
    assert message.startswith("topic t, partition 0, offset 1: ")
    assert reason in message


def test_a_nested_route_field_that_is_an_object_makes_a_bad_record() -> None:
    values = pa.array([{"g": {"h": "x"}}, None, {"g": None}])
    found, bad_records = routed_by_field(values, **{"iceberg.tables.route-field": "f.g"})
    assert (found, [offset for offset, _ in bad_records]) == ([], [0])


def test_a_record_that_names_a_changelog_is_a_bad_record() -> None:
    found, bad_records = routed_by_field(pa.array(["db.a", "db.a_changelog", "db.a"]), **{"write.mode": "both"})
    assert found == [("db.a", [0, 2]), ("db.a_changelog", [0, 2])]
    assert bad_records == [(1, "topic t, partition 0, offset 1: f names db.a_changelog, which is the name of a changelog")]


UNKNOWN = pa.array(["db.a", None, None, None, None, "db.a"])
OPERATIONS: list[str | None] = ["c", "d", "t", None, "tombstone", "d"]


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"write.mode": "upsert"},
        {"write.mode": "both", "delete.mode": "ignore"},
        {"iceberg.tables.dynamic-enabled": "false", "iceberg.tables": "db.a", "iceberg.table.db.a.route-regex": "db.a"},
    ],
    ids=["append", "upsert", "changelog", "listed"],
)
def test_deletes_and_truncates_that_choose_no_table_are_bad_records(properties: dict[str, str]) -> None:
    """They were dropped, and the rows stayed."""
    found, bad_records = routed_by_field(UNKNOWN, OPERATIONS, **properties)
    assert all(offsets == [0, 5] for _, offsets in found)
    assert [offset for offset, _ in bad_records] == [1, 2]
    assert "offset 1: this delete has no value in the route field f, so its table is not known; " in bad_records[0][1]
    assert "offset 2: a truncate has no row, so the route field f does not choose its table; leave" in bad_records[1][1]


def test_deletes_and_truncates_that_do_nothing_need_no_table() -> None:
    ignoring = {"write.mode": "upsert", "delete.mode": "ignore"}
    assert routed_by_field(UNKNOWN, OPERATIONS, **ignoring) == ([("db.a", [0, 5])], [])
