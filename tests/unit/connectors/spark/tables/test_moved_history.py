"""Somebody exchanges the rows of a table that a task writes: the task must not go on from what it knew."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connect.record import TopicPartition
from connectors.spark.tables.conflicts import UnsuitableTable
from connectors.spark.tables.delta import delta_table
from connectors.spark.tables.delta.delta_table import DeltaTable
from tests.support.lake import delta, iceberg
from tests.support.lake.calls import Calls
from tests.support.lake.iceberg import Change
from tests.support.lake.lakes import CONNECTOR
from tests.support.lake.model import settings_of
from tests.support.lake.scheduler import Case, World, replay


def world(case: Case, *steps: str) -> Any:
    """A world after these steps, with everything that is inside."""
    made = World(case)
    for step in steps:
        made.step(step)
    return made


def commit(world: Any) -> None:
    """What the sink A has taken and not committed."""
    sink = world.sinks["A"]
    sink.writer.commit([batch for _, batch in sink._waiting], list(sink.positions))


def reopened(world: Any, mode: str = "upsert") -> Any:
    """The table of a task that starts."""
    return world.lake.open(settings_of(mode), Calls())


def drop_and_create(lake: Any, **configuration: str) -> None:
    lake.versions.clear()
    lake.store.objects.clear()
    lake.table_id = str(uuid.uuid4())
    metadata = lake._metadata()
    if not configuration:
        metadata["configuration"] = {}
    lake.put([{"metaData": metadata}, {"protocol": delta._PROTOCOL}], {"operation": "CREATE TABLE"}, effect=list)


def test_a_table_that_was_created_again_without_deletion_vectors_is_not_left_to_spark() -> None:
    made = world(Case("delta", "upsert", "c1 c2 c3 c4 c5"), "A take 3", "A commit", "A put 2")
    drop_and_create(made.lake)
    with pytest.raises(ConnectError, match="was dropped and created again"):
        commit(made)


def test_a_table_that_was_created_again_while_the_jvm_was_gone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = world(Case("delta", "upsert", "c1 c2 c3 c4 c5"), "A open")
    session: Any = SimpleNamespace(conf=SimpleNamespace(get=lambda *_: None, set=lambda *_: None))
    of_spark: Any = None  # it is never Spark's
    table = DeltaTable("t", lambda: session, lambda _: reopened(made), of_spark)
    sink = made.sinks["A"]
    sink.writer._table, sink.writer._state = table, None
    sink.put(3)
    commit(made)
    sink._waiting.clear()
    sink.put(2)

    def lose_jvm(*_: object) -> None:
        raise OSError("the JVM is gone")

    with monkeypatch.context() as patch:
        patch.setattr(delta_table, "is_jvm_gone", lambda _: True)
        patch.setattr(table._table, "upsert", lose_jvm)
        with pytest.raises(ConnectError):
            commit(made)
    drop_and_create(made.lake, vectors="true")
    for _ in range(2):  # also when it is tried again
        with pytest.raises(ConnectError, match=r"the offset of topic-0 was 3 and is gone now.*Restart the task"):
            commit(made)


def test_a_table_that_comes_from_a_backup_is_noticed() -> None:
    made = world(Case("delta", "append", "c1 c2 c3 c4 c5 c6"), "A take 2", "A commit", "A put 2", "A commit", "A put 2")
    lake = made.lake
    del lake.store.objects[f"lake/t/_delta_log/{lake.newest.id:020d}.json"]
    lake.versions.pop()
    with pytest.raises(ConnectError, match="the offset of topic-0 was 4 and is 2 now"):
        commit(made)


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_restored_table_is_refused_also_if_the_next_record_adds_a_column(form: str) -> None:
    made = world(Case(form, "upsert", "c1 c2 c3 c4 c5 c6"), "A take 2", "A commit", "A put 2", "A commit")
    sink, versions = made.sinks["A"], len(made.lake.versions)
    made.lake.go_back(1)
    sink.put(1)
    tp, batch = sink._waiting[0]
    wider = replace(batch, image=batch.image.append_column("note", pa.array(["x"])))
    with pytest.raises(ConnectError, match=r"RESTORE replaced|rolled back"):
        sink.writer.commit([wider], [tp])
    assert "note" not in (sink.writer.columns() or ())
    if form == "delta":  # Iceberg's offsets have gone back with the rows
        assert len(made.lake.versions) == versions + 1
        with pytest.raises(ConnectError, match="RESTORE replaced"):
            reopened(made).load(())


@pytest.mark.parametrize("left", ["1", "0"])
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_an_append_does_not_land_on_rows_that_somebody_has_replaced(
    mode: str, left: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = world(Case("iceberg", mode, "c1 c2 c3 c4 c5"), "A take 3", "A commit", "A put 2")
    lake, commit_to = made.lake, iceberg._Handle.commit

    def overwrite_before(handle: Any, request: Any) -> Any:
        monkeypatch.setattr(iceberg._Handle, "commit", commit_to)
        values, row = lake.foreign_row(50)
        added = [lake._new_entry([values])] if left == "1" else []
        change = Change("overwrite", added, list(lake.newest.files))
        lake.commit(change, {"replace-partitions": "true"}, effect=lambda _: [row] if added else [])
        files = {"total-data-files": left, **({"added-data-files": left} if added else {})}
        lake.newest.summary = {**lake.newest.summary, **files}
        return commit_to(handle, request)

    monkeypatch.setattr(iceberg._Handle, "commit", overwrite_before)
    with pytest.raises(ConnectError, match="another writer replaced the table's rows"):
        commit(made)
    with pytest.raises(ConnectError, match="another writer replaced the table's rows"):
        reopened(made, mode).load(())


def test_offsets_that_are_deleted_do_not_hide_those_of_spark() -> None:
    made = world(Case("delta", "upsert", "c1 c2 c3"), "A take 3", "A commit", "A kill")
    made.lake.is_operated = True
    reopened(made).move_offsets({TopicPartition("topic", 0): None})
    made.lake.put([{"txn": {"appId": f"sluice:{CONNECTOR}:t", "version": 1}}], {"operation": "MERGE"}, effect=list)
    reads: list[Callable[[Any], object]] = [lambda table: table.load(()), lambda table: table.stored_ends()]
    for read in reads:
        with pytest.raises(UnsuitableTable, match="it has written rows before"):
            read(reopened(made))


@pytest.mark.parametrize("form", ["delta", "iceberg"])
@pytest.mark.parametrize("mode", ["soft", "scd2", "upsert"])
def test_a_truncate_may_be_the_first_change_of_a_table(form: str, mode: str) -> None:
    replay(Case(form, mode, "t c3"), "A open", "A put 2", "A commit")


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_a_merged_file_is_deleted_if_the_table_was_altered_meanwhile(form: str) -> None:
    made = world(Case(form, "upsert", "c1 c2 c3 c4 c5 c6"), "A take 2", "A commit", "A put 2", "A commit")
    table: Any = made.sinks["A"].writer._table
    merging = table._format.merging

    def alter(view: Any, sources: Any) -> Any:
        made.lake.add_column()
        return merging(view, sources)

    table._format.merging = alter
    before = set(made.lake.store.objects)
    assert not table.compact()
    assert [path for path in made.lake.store.objects if path not in before and "_delta_log" not in path] == []
