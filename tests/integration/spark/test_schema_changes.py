"""Records whose fields differ from the columns of their table: missing and new fields, renames, contracts; in both formats."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect import crash_points
from connect.config.schema_contracts import FrozenSchemaError
from connect.errors import ConnectError, DataError
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import open_table
from tests.integration.spark.change_events import PLACEHOLDER
from tests.integration.spark.lake import field, message
from tests.integration.spark.table_access import CATALOG, FORMATS, catalog_props, configure_catalog
from tests.support.cases import first_fast

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ID, A, B = field("id", "int64"), field("a", "string"), field("b", "int32")
MERGE = "merge"


class Rig:
    """The topic ``t`` and its table, as one of two formats, or as a Delta table that Spark writes."""

    def __init__(self, way: str, props: dict[str, str], run: Any, topic: Any, folder: Path) -> None:
        self.way = way
        self.props = {**props, "metadata.columns": "none", "write.mode": "upsert", "key.columns": "id"}
        if way == "iceberg":
            del self.props["table.location"]
            self.props |= {f"spark.conf.{k}": v for k, v in catalog_props(folder).items()}
            self.props |= {"table.format": "iceberg", "table.catalog": CATALOG}
            self.access = FORMATS["iceberg"](folder / "t")
        else:
            self.access = FORMATS["delta"](Path(props["table.location"], "t"))
        self._run, self._new_topic = run, topic
        self.topic = topic("t", schemas=True)
        self.group: dict[Any, int] = {}
        self.task_run: Any = None
        self.lease = session.lease(parse_config(self.props).spark)
        self.spark = self.lease.session()
        if way == "iceberg":
            configure_catalog(self.spark, folder)

    def without_schemas(self) -> None:
        self.topic = self._new_topic("t", schemas=False)

    def start(self, **own: str) -> None:
        self.props |= {name.replace("_", "."): value for name, value in own.items()}
        self.task_run = self._run(self.props, [self.topic], raw=True, group=self.group)

    def add(self, row: dict[str, Any], *fields: dict[str, Any]) -> None:
        self.topic.add(None, message([ID, *fields], row) if fields else json.dumps(row).encode())

    def commit(self) -> None:
        self.task_run.deliver()
        self.task_run.commit()

    def stop(self) -> None:
        if self.task_run is not None:
            self.task_run.task.close()
            self.task_run = None

    def rows(self, *, second_engine: bool = True) -> list[dict[str, Any]]:
        found = sorted(self.access.by_spark(self.spark).to_pylist(), key=repr)
        if second_engine:
            assert sorted(self.access.by_second_engine().to_pylist(), key=repr) == found
        return sorted(found, key=lambda row: row["id"])

    def progress(self, name: str) -> int:
        return int(self.task_run.task.progress()["tables"]["t"][name])


@pytest.fixture(params=first_fast(["delta", "iceberg"]))
def rig(request: Any, props: dict[str, str], run: Any, topic: Any, tmp_path: Path, monkeypatch: Any) -> Iterator[Rig]:
    if request.param == MERGE:
        monkeypatch.setattr(open_table, "reaches_jvm", lambda spark: False)
    created = Rig(request.param, props, run, topic, tmp_path / "warehouse")
    yield created
    created.stop()
    created.lease.release()


class Crash(Exception):
    """The process dies."""


def crash_at(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    def point(reached: str) -> None:
        if reached == name:
            raise Crash

    monkeypatch.setattr(crash_points, "point", point)


DAY = "org.apache.kafka.connect.data.Date"
N, DATE = field("n", "int32", default=7), field("day", "int32", name=DAY, default=1)


@pytest.mark.long
def test_existing_rows_get_the_default_of_a_column_that_is_added(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.topic.converter["replace.null.with.default"] = "false"
    rig.start(added_columns_default="schema")
    for id_ in range(4):
        rig.add({"id": id_, "a": f"a{id_}"}, A)
    rig.commit()
    rig.add({"id": 1, "a": "b1"}, A)
    rig.commit()  # a deletion vector
    rig.add({"id": 2, "a": "b2", "n": None, "day": None}, A, N, DATE)
    rig.add({"id": 9, "a": "b9", "n": 5, "day": 0}, A, N, DATE)
    # Delta tables: before the column is added; Iceberg tables: after it, and before the rows are written.
    with monkeypatch.context() as patched:
        crash_at(patched, "spark.staged")
        rig.task_run.deliver()
        with pytest.raises(ConnectError, match="Crash"):
            rig.task_run.commit()
    names = set(rig.access.by_spark(rig.spark).column_names)
    assert names == ({"id", "a"} if rig.way == "delta" else {"id", "a", "n", "day"})
    rig.stop()
    rig.start(unavailable_value_placeholder=PLACEHOLDER)
    rig.commit()
    second, epoch = dt.date(1970, 1, 2), dt.date(1970, 1, 1)
    expected = [
        {"id": 0, "a": "a0", "n": 7, "day": second},
        {"id": 1, "a": "b1", "n": 7, "day": second},
        {"id": 2, "a": "b2", "n": None, "day": None},  # its own value, not the default
        {"id": 3, "a": "a3", "n": 7, "day": second},
        {"id": 9, "a": "b9", "n": 5, "day": epoch},
    ]
    assert rig.rows() == expected
    # Values of before are read with the default, by upserts that keep them and by compaction.
    rig.stop()
    rig.start(compaction_min_files="2", missing_columns="keep")
    rig.add({"id": 3, "a": "c3"}, A)
    rig.commit()
    for table in rig.task_run.task.sink.tables.queues():
        table.writer.maintain(lambda: False)
    expected[3]["a"] = "c3"
    assert rig.rows() == expected
    # A record with the schema of before, and a row that the table lacks.
    rig.add({"id": 10, "a": "c10"}, A)
    rig.commit()
    assert rig.rows() == [*expected, {"id": 10, "a": "c10", "n": None, "day": None}]


@pytest.mark.long
@pytest.mark.parametrize("rig", ["delta"], indirect=True)
def test_rows_that_another_writer_adds_meanwhile_get_the_default_too(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.start(added_columns_default="schema")
    rig.add({"id": 1, "a": "a1"}, A)
    rig.commit()
    left = ["INSERT INTO {table} (id, a) VALUES (8, 'other')"]

    def point(reached: str) -> None:
        if reached == "spark.staged" and left:
            rig.access.change(rig.spark, left.pop())

    monkeypatch.setattr(crash_points, "point", point)
    rig.add({"id": 2, "a": "a2", "n": 5}, A, N)
    rig.commit()
    assert rig.rows() == [{"id": 1, "a": "a1", "n": 7}, {"id": 2, "a": "a2", "n": 5}, {"id": 8, "a": "other", "n": 7}]
    assert not left


def test_partitions_and_wall_clock_times_get_defaults(rig: Rig) -> None:
    at = field("at", "int64", name="io.debezium.time.MicroTimestamp", default=1_000_000)
    rig.start(added_columns_default="schema", partition_columns="a")
    for id_ in range(3):
        rig.add({"id": id_, "a": str(id_ % 2)}, A)
    rig.commit()
    rig.add({"id": 0, "a": "1", "at": 0}, A, at)
    rig.commit()
    moment = dt.datetime(1970, 1, 1, 0, 0, 1)
    assert rig.rows() == [
        {"id": 0, "a": "1", "at": dt.datetime(1970, 1, 1)},
        {"id": 1, "a": "1", "at": moment},
        {"id": 2, "a": "0", "at": moment},
    ]


@pytest.mark.parametrize("rig", first_fast([MERGE, "delta", "iceberg"]), indirect=True)
def test_upserts_keep_the_values_of_columns_that_records_do_not_have(rig: Rig) -> None:
    rig.start(missing_columns="keep", unavailable_value="fail")
    rig.add({"id": 1, "a": "a1", "b": 1}, A, B)
    rig.add({"id": 2, "a": "a2", "b": 2}, A, B)
    rig.commit()
    rig.add({"id": 1, "a": "x"}, A)
    rig.add({"id": 1, "b": None}, B)
    rig.add({"id": 2, "b": 22}, B)
    rig.add({"id": 3, "b": 33}, B)
    rig.commit()
    assert rig.rows() == [{"id": 1, "a": "x", "b": None}, {"id": 2, "a": "a2", "b": 22}, {"id": 3, "a": None, "b": 33}]
    rig.add({"id": 2, "a": "y"}, A)
    rig.commit()
    assert rig.rows()[1] == {"id": 2, "a": "y", "b": 22}
    assert rig.progress("unavailable") == 0


@pytest.mark.long
@pytest.mark.parametrize(("rig", "mode"), first_fast([("delta", "scd2"), ("iceberg", "upsert")]), indirect=["rig"])
def test_a_missing_member_of_json_without_schemas_differs_from_null(rig: Rig, mode: str) -> None:
    rig.without_schemas()
    rig.start(missing_columns="keep", write_mode=mode)
    for id_ in (1, 2, 4):
        rig.add({"id": id_, "a": f"a{id_}", "b": id_})
    rig.commit()
    rig.add({"id": 1, "a": None})
    rig.add({"id": 1, "new": 1})
    rig.add({"id": 2, "b": None, "a": "x"})
    rig.add({"id": 2, "a": None})
    rig.add({"id": 3, "b": 3})
    rig.topic.add(b'{"id":4}', None)  # the next one is another row
    rig.add({"id": 4, "b": 44})
    rig.commit()
    rows = [row for row in rig.rows() if row.get("__current", True)]
    assert [{name: row[name] for name in ("id", "a", "b", "new")} for row in rows] == [
        {"id": 1, "a": None, "b": 1, "new": 1},
        {"id": 2, "a": None, "b": None, "new": None},
        {"id": 3, "a": None, "b": 3, "new": None},
        {"id": 4, "a": None, "b": 44, "new": None},
    ]


def test_records_with_either_name_land_in_one_column(rig: Rig) -> None:
    rig.without_schemas()
    rig.start(column_renames="number:id", column_renames_t="old:a")
    rig.add({"id": 1, "old": "before"})
    rig.add({"number": 2, "a": "after"})
    rig.commit()
    rig.stop()
    rig.start(missing_columns="keep")
    rig.add({"number": 1, "a": "later", "b": 1})
    rig.add({"id": 2, "old": None})
    rig.add({"id": 3, "old": "x"})
    rig.commit()
    assert rig.rows() == [
        {"id": 1, "a": "later", "b": 1},
        {"id": 2, "a": None, "b": None},
        {"id": 3, "a": "x", "b": None},
    ]
    rig.add({"id": 4, "old": "x", "a": None})
    rig.task_run.deliver()
    with pytest.raises(DataError, match=r"offset 5: the record has the fields old and a, and column\.renames writes both"):
        rig.task_run.commit()


def test_contracts_say_what_becomes_of_records_that_would_change_the_table(rig: Rig) -> None:
    note, wide = field("note", "string"), field("b", "int64")
    overrides = r"t\.b:dead_letter_queue,t\.note:drop_column,t\.more:evolve"
    rig.start(schema_contract="freeze", schema_contract_overrides=overrides, errors_tolerance="all", schema_evolution="widen")
    rig.add({"id": 1, "a": "a1", "b": 1}, A, B)
    rig.commit()
    rig.add({"id": 1, "a": "x", "note": "n"}, A, note)
    rig.add({"id": 2, "a": "a2", "b": 2**40}, A, wide)
    rig.add({"id": 3, "a": "a3", "b": 3, "more": 1}, A, wide, field("more", "int32"))
    rig.commit()
    expected = [{"id": 1, "a": "x", "b": None, "more": None}, {"id": 3, "a": "a3", "b": 3, "more": 1}]
    assert rig.rows() == expected
    assert (rig.progress("dropped"), rig.task_run.task.progress()["refused"]) == (1, 1)
    rig.add({"id": 4, "extra": 1}, field("extra", "int32"))
    rig.task_run.deliver()
    with pytest.raises(FrozenSchemaError, match=r"table t would change, but its schema contract is freeze: topic t, "):
        rig.task_run.commit()
    assert rig.rows() == expected
    rig.stop()
    rig.start(schema_contract_overrides=overrides + r",t\.extra:evolve")
    rig.commit()
    assert rig.rows() == [row | {"extra": None} for row in expected] + [{"id": 4, "a": None, "b": None, "more": None, "extra": 1}]


@pytest.mark.long
def test_values_without_a_schema_obey_contracts(rig: Rig) -> None:
    rig.without_schemas()
    rig.start(schema_contract_overrides="t:drop_column", write_mode="append")
    rig.add({"id": 1, "b": 1})
    rig.commit()
    rig.add({"id": 2, "b": "text", "new": [1]})
    rig.commit()
    assert rig.rows() == [{"id": 1, "b": 1}, {"id": 2, "b": None}]
    assert rig.progress("dropped") == 2


RESCUED = "_rescued_data"
EVOLVED: dict[str, list[Any]] = {
    "add": [{"id": 1, "b": 1, "a": None}, {"id": 2, "b": 2, "a": "x"}],
    "none": [{"id": 1, "b": 1}, {"id": 2, "b": 2}],
    "widen": [{"id": 1, "b": 1, "a": None}, {"id": 2, "b": 2, "a": "x"}, {"id": 3, "b": 2**40, "a": "x"}],
    "lenient": [
        {"id": 1, "b": 1, RESCUED: None},
        {"id": 2, "b": 2, RESCUED: {"a": "x"}},
        {"id": 3, "b": None, RESCUED: {"b": 2**40, "a": "x"}},
    ],
}


@pytest.mark.parametrize("evolution", first_fast(["add", "none", "widen", "lenient", "fail"]))
def test_each_schema_evolution_for_one_table(rig: Rig, evolution: str) -> None:
    rig.start(schema_evolution="fail", schema_evolution_t=evolution, errors_tolerance="all", write_mode="append")
    rig.add({"id": 1, "b": 1}, B)
    rig.commit()
    rig.add({"id": 2, "b": 2, "a": "x"}, field("b", "int64"), A)
    rig.add({"id": 3, "b": 2**40, "a": "x"}, field("b", "int64"), A)
    rig.task_run.deliver()
    if evolution == "fail":
        with pytest.raises(ConnectError, match="has no column `a`, the records do, and schema"):
            rig.task_run.commit()
        assert rig.rows() == [{"id": 1, "b": 1}]
        return
    rig.task_run.commit()
    # With a dead letter queue, it would get the record whose value has no place.
    assert rig.task_run.task.progress()["refused"] == 3 - len(EVOLVED[evolution])
    # delta-rs does not read tables with wider types.
    found = rig.rows(second_engine=(rig.way, evolution) != ("delta", "widen"))
    if evolution == "lenient":
        found = [{**row, RESCUED: row[RESCUED] and json.loads(row[RESCUED])} for row in found]
    assert found == EVOLVED[evolution]


def map_field(*value_fields: dict[str, Any]) -> dict[str, Any]:
    """A map to structs, in an array."""
    values = {"type": "struct", "optional": True, "fields": list(value_fields)}
    map_ = {"type": "map", "optional": True, "keys": {"type": "string"}, "values": values}
    return field("m", "array", items=map_)


@pytest.mark.long
def test_new_fields_in_the_values_of_maps_are_added_and_structs_without_fields_are_left_out(rig: Rig) -> None:
    empty, filled = field("e", "struct", fields=[]), field("e", "struct", fields=[B])
    rig.start()
    rig.add({"id": 1, "m": [{"k": {"b": 1}}], "e": {}}, map_field(B), empty)
    rig.commit()
    rig.add({"id": 2, "m": [{"k": {"b": 2, "a": "new"}}, None], "e": {"b": 3}}, map_field(B, A), filled)
    rig.add({"id": 3, "m": [{"k": {"b": 4}}], "e": {}}, map_field(B), empty)
    rig.commit()
    # delta-rs cannot read the values of maps in files from before the column was added.
    assert rig.rows(second_engine=rig.way == "iceberg") == [
        {"id": 1, "m": [[("k", {"b": 1, "a": None})]], "e": None},
        {"id": 2, "m": [[("k", {"b": 2, "a": "new"})], None], "e": {"b": 3}},
        {"id": 3, "m": [[("k", {"b": 4, "a": None})]], "e": {"b": None}},
    ]
