"""Order by the source's positions: any order of arrival gives the same table, also with repetitions, crashes, and restarts."""

from __future__ import annotations

import contextlib
import os
import random
import time
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError, DataError
from connect.record import TopicPartition
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import DELETED, HARD, IGNORE, SEQ, SOFT, UNAVAILABLE
from connectors.spark.decode.change_batch import ChangeBatch
from connectors.spark.tables.source_order.order_state import FOLDER
from tests.support.files_only_table import Crash
from tests.support.files_only_world import SETTINGS, SOFT_SETTINGS, World
from tests.support.source_order_histories import Event, apply_in_order, make_arrival, make_history


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@given(st.integers(0, 1 << 32), st.sampled_from([HARD, HARD, SOFT, IGNORE]))
def test_any_arrival_gives_the_rows_of_the_history(seed: int, mode: str) -> None:
    chance = random.Random(seed)
    events = make_history(chance)
    arrival = make_arrival(events, chance)
    config = SOFT_SETTINGS if mode == SOFT else replace(SETTINGS, delete_mode=mode)
    with TemporaryDirectory() as folder:
        world = World(Path(folder), config)
        while arrival:
            count = chance.randint(1, 4)
            part, arrival = [(event, chance.randrange(3)) for event in arrival[:count]], arrival[count:]
            batch, assigned = world.partitions.batch(part), [TopicPartition("t", p) for p in range(3)]
            step = chance.choice(["", "crash", "restart", "compact"])
            if step == "restart":
                world.restart()
            if step == "crash":
                world.table.crashes = True
                with contextlib.suppress(Crash):
                    world.writer.commit([batch], assigned)
                world.restart()
            world.writer.commit([batch], assigned)
            if step == "compact":
                world.table.compact()
        assert world.rows() == apply_in_order(events, deletes=mode != IGNORE)


def test_a_late_change_does_not_bring_a_deleted_row_back(world: World) -> None:
    world.commit(Event("c", 1, 1, "a"))
    world.commit(Event("d", 1, 3), Event("tombstone", 1, 3))
    world.restart()
    world.table.compact()
    world.commit(Event("u", 1, 2, "b"), partitions=[1])
    assert world.rows() == {}
    assert world.table.progress()["outdated"] == 1
    world.commit(Event("c", 1, 4, "c"), partitions=[1])
    assert world.rows() == {1: "c"}


def test_a_delete_that_arrives_first_wins(world: World) -> None:
    world.commit(Event("d", 1, 2))
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 3, "b"))
    assert world.rows() == {2: "b"}


def test_a_truncate_is_remembered_and_keeps_newer_rows(world: World) -> None:
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 5, "b"))
    world.commit(Event("t", None, 4), partitions=[1])
    assert world.rows() == {2: "b"}
    world.restart()
    world.commit(Event("c", 3, 3, "c"), Event("c", 4, 6, "d"))
    assert world.rows() == {2: "b", 4: "d"}


def test_a_truncate_alone_after_a_restart_keeps_what_is_known_of_deleted_keys(world: World) -> None:
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 20, "b"))
    world.commit(Event("d", 1, 15), Event("d", 3, 5))
    world.commit(Event("d", 4, 4))
    world.restart()
    world.commit(Event("t", None, 10))
    world.restart()
    world.commit(Event("c", 1, 12, "late"), Event("c", 3, 4, "late"), Event("c", 4, 11, "new"))
    assert world.rows() == {2: "b", 4: "new"}


def test_an_insert_at_the_position_of_a_delete_of_the_same_key_wins(world: World) -> None:
    # key.columns that an update of the primary key does not change.
    created, deleted = Event("c", 1, 2, "new"), Event("d", 1, 2)
    for order in ([created, deleted], [deleted, created]):
        world.commit(*order)
        assert world.rows() == {1: "new"}
    world.commit(Event("c", 1, 3, "x"))
    world.commit(Event("d", 1, 4))
    world.commit(Event("c", 1, 4, "new"), partitions=[1])
    assert world.rows() == {1: "new"}


def test_rows_of_a_snapshot_are_older_than_changes_of_transactions_that_were_open(world: World) -> None:
    world.commit(Event("u", 1, 1, "streamed"))
    world.commit(Event("r", 1, 1000, "read"), Event("r", 2, 1000, "read"), partitions=[1])
    assert world.rows() == {1: "streamed", 2: "read"}
    world.commit(Event("r", 2, 2000, "read again"), partitions=[1])
    assert world.rows() == {1: "streamed", 2: "read again"}


def test_a_change_without_a_position_is_refused_by_name(world: World) -> None:
    batch = world.partitions.batch([(Event("c", 1, 1, "a"), 0), (Event("c", 2, 2, "b"), 0)])
    positions = pa.chunked_array([pa.array([Event("c", 1, 1).position, None])])
    meta = batch.meta.set_column(batch.meta.column_names.index("position"), "position", positions)
    batch = ChangeBatch("t", meta, batch.image, batch.keys)
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 1: the change event has no position .*sequence.by=log"):
        world.writer.commit([batch], [])
    good, bad = world.writer.split_bad_records([batch], [])
    assert [one.offset for one in bad] == [1]
    world.writer.commit(good, [])
    assert world.rows() == {1: "a"}


def test_deleted_keys_are_forgotten_after_the_retention(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    world.table.order.deleted_keys._clock = lambda: now[0]
    world.commit(Event("d", 1, 5))
    now[0] += 6 * 86_400
    world.commit(Event("d", 2, 6))
    world.commit(Event("c", 1, 1, "late"))
    assert world.rows() == {}
    now[0] += 2 * 86_400
    world.commit(Event("d", 3, 7))
    assert world.table.progress()["deleted_keys"] == 2
    world.commit(Event("c", 1, 1, "late"), Event("c", 2, 2, "late"))
    assert world.rows() == {1: "late"}


def test_states_are_few_files_however_many_commits_delete(world: World) -> None:
    world.commit(Event("c", 0, 1, "a"))
    for at in range(2, 60):
        world.commit(Event("d", at, at))
    assert len(world.table.order.deleted_keys.state.segments) <= 4
    assert world.table.progress()["deleted_keys"] == 58
    world.restart()
    for id_ in (2, 30, 59):
        world.commit(Event("c", id_, 1, "late"))
    assert world.rows() == {0: "a"}


def test_files_of_old_states_are_deleted_after_a_week_by_the_first_commit_of_a_task(world: World) -> None:
    for at in range(1, 30):
        world.commit(Event("d", at, at))
    folder = Path(world.table.path) / FOLDER
    before = len(list(folder.iterdir()))
    for path in folder.iterdir():
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    world.restart()
    world.commit(Event("d", 100, 100))
    deleted_keys = world.table.order.deleted_keys
    assert before == 29
    needed = {segment.id for segment in deleted_keys.state.segments} | {deleted_keys.state.id}
    assert {int(path.stem) for path in folder.iterdir()} == needed
    world.restart()
    world.commit(Event("c", 5, 1, "late"))
    assert world.rows() == {}


def test_files_that_branches_share_are_not_deleted(world: World) -> None:
    for at in range(1, 10):
        world.commit(Event("d", at, at))
    folder = Path(world.table.path) / FOLDER
    for path in folder.iterdir():
        os.utime(path, (time.time() - 8 * 86_400,) * 2)
    order = world.table.order
    assert order.files is not None
    order.files.are_shared = True
    order.deleted_keys._cleaned_at -= 7200
    world.commit(Event("d", 100, 100))
    assert len(list(folder.iterdir())) == 10


def test_executors_write_no_files_of_ordered_tables(tmp_path: Path) -> None:
    targets = []
    for name, config in (("source", SETTINGS), ("log", replace(SETTINGS, sequence_by="log"))):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, config)
        world.commit(Event("c", 1, 1, "a"))
        targets.append(world.writer.write_target([TopicPartition("t", 0)]))
    assert [target.files is not None for target in targets] == [False, True]
    assert [target.ends for target in targets] == [{TopicPartition("t", 0): 1}] * 2


@pytest.mark.parametrize(
    "first", [[Event("c", 3, 6, "b")], [Event("c", 3, 6, "b"), Event("d", 8, 7)], [Event("t", None, 5), Event("c", 3, 6, "b")]]
)
@pytest.mark.parametrize("lost", ["all files", "an older segment"])
def test_a_missing_state_is_an_error_with_a_way_out(world: World, first: list[Event], lost: str) -> None:
    folder = Path(world.table.path) / FOLDER
    world.commit(*(Event("d", 100 + key, 0) for key in range(5)))
    (segment,) = folder.iterdir()
    world.commit(Event("c", 1, 1, "a"), Event("d", 2, 2))
    for path in folder.iterdir() if lost == "all files" else [segment]:
        path.unlink()
    world.restart()
    with pytest.raises(ConnectError, match=r"sequence\.deleted\.retention\.ms=0"):
        world.commit(Event("c", 3, 3, "b"))
    world.config = replace(SETTINGS, deleted_retention_ms=0)
    world.restart()
    world.commit(*first)
    world.config = SETTINGS
    world.restart()
    world.commit(Event("c", 3, 4, "late"), Event("d", 1, 9))
    assert world.rows() == {3: "b"}


def test_a_state_that_cannot_be_read_now_is_not_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.commit(Event("t", None, 5), Event("c", 1, 6, "a"))
    world.config = replace(SETTINGS, deleted_retention_ms=0)
    world.restart()

    def lose_connection(*_: object) -> object:
        raise OSError("timeout")

    with monkeypatch.context() as patch:
        patch.setattr(pa.parquet, "read_schema", lose_connection)
        with pytest.raises(ConnectError, match="cannot read"):
            world.commit(Event("c", 2, 4, "late"))
    world.commit(Event("c", 2, 4, "late"))
    assert world.rows() == {1: "a"}


def test_an_unavailable_value_is_that_of_the_row_before_and_never_of_a_late_change(world: World) -> None:
    world.commit(Event("c", 1, 1, "large"))
    world.commit(Event("u", 1, 4, UNAVAILABLE))
    assert world.rows() == {1: "large"}
    world.commit(Event("u", 1, 2, "old"), partitions=[1])
    assert world.rows() == {1: "large"}
    # In one commit, values come from older changes, whatever their order.
    world.commit(Event("u", 2, 6, UNAVAILABLE), Event("c", 2, 5, "two"), partitions=[0, 1])
    assert world.rows() == {1: "large", 2: "two"}


def test_rows_from_before_the_setting_are_older_than_all_changes(world: World) -> None:
    world.commit(Event("c", 1, 1, "a"), Event("c", 2, 2, "b"))
    # As if the column had been added just now: a file without it.
    for name, add in world.storage.adds.items():
        path = Path(world.table.path) / name
        pa.parquet.write_table(pa.parquet.read_table(path).drop_columns([SEQ]), path)
        world.storage.adds[name] = {**add, "size": path.stat().st_size}
    world.restart()
    world.commit(Event("c", 1, 1, "again"))
    assert world.rows() == {1: "again", 2: "b"}


@pytest.mark.parametrize("config", [SETTINGS, SOFT_SETTINGS])
@pytest.mark.parametrize("late", [Event("u", 1, 2, "old"), Event("d", 1, 2)])
@pytest.mark.parametrize("newer", [Event("u", 1, 4, UNAVAILABLE), Event("d", 1, 4)])
def test_a_late_change_gives_no_values_to_a_newer_one_of_its_commit(
    config: TableConfig, late: Event, newer: Event, tmp_path: Path
) -> None:
    tables = []
    for name, commits in (("apart", [[late], [newer]]), ("together", [[late, newer]])):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, config)
        world.commit(Event("c", 1, 1, "first"), Event("u", 1, 3, "current"))
        for events in commits:
            world.commit(*events, partitions=[1])
        tables.append(world.table.rows())
        assert world.table.progress()["outdated"] == 1
    assert tables[0] == tables[1]
    assert [row["v"] for row in tables[0]] == ([] if newer.op == "d" and config is SETTINGS else ["current"])


def apply_commits(commits: list[list[Event]], *, soft: bool) -> dict[int, tuple[str | None, bool, str | None]]:
    """By key: the value, whether it is marked as deleted, and the position, after commits of changes that may come late."""
    rows: dict[int, tuple[str | None, bool, str | None]] = {}
    deleted: dict[int, str] = {}
    for commit in commits:
        new = [
            e
            for e in commit
            if (e.position or "") > max(rows.get(e.id or 0, ("", False, ""))[2] or "", deleted.get(e.id or 0, ""))
        ]
        for event in sorted(new, key=lambda e: e.position or ""):
            id_ = event.id or 0
            value = rows[id_][0] if id_ in rows else None
            if event.op == "d":
                if soft:
                    rows[id_] = (value, True, event.position)
                else:
                    rows.pop(id_, None)
                    deleted[id_] = event.position or ""
            else:
                rows[id_] = (value if event.value == UNAVAILABLE else event.value, False, event.position)
    return rows


@given(st.integers(0, 1 << 32), st.booleans())
def test_commits_of_late_changes_do_what_their_changes_do_one_by_one(seed: int, soft: bool) -> None:
    chance = random.Random(seed)
    events = [
        Event(chance.choice("uuud"), chance.randrange(2), at, chance.choice([f"v{at}", UNAVAILABLE])) for at in range(1, 12)
    ]
    events = [replace(e, value=None) if e.op == "d" else e for e in events]
    chance.shuffle(events)
    commits = []
    while events:
        count = chance.randint(1, 4)
        commits.append(events[:count])
        events = events[count:]
    with TemporaryDirectory() as folder:
        world = World(Path(folder), SOFT_SETTINGS if soft else SETTINGS)
        for commit in commits:
            world.commit(*commit, partitions=[0, 1])
        found = {row["id"]: (row["v"], bool(row.get(DELETED)), row[SEQ]) for row in world.table.rows()}
        assert found == apply_commits(commits, soft=soft)


def test_a_truncate_says_nothing_of_another_topic_that_feeds_the_table_later(world: World) -> None:
    world.commit(Event("c", 1, 900, "a"), Event("t", None, 1000))
    others = world.partitions.batch([(Event("c", 7, 2, "b"), 0), (Event("d", 8, 4), 0), (Event("c", 8, 3, "late"), 0)])
    world.writer.commit([replace(others, topic="shard")], [])
    world.restart()
    world.commit(Event("c", 1, 950, "late"), Event("c", 2, 1001, "new"))
    late = world.partitions.batch([(Event("c", 8, 1, "late"), 0)])
    world.writer.commit([replace(late, topic="shard")], [])
    assert world.rows() == {2: "new", 7: "b"}


def test_rows_between_two_truncates_of_a_commit_are_deleted_by_the_second(tmp_path: Path) -> None:
    tables = []
    for name, commits in (("apart", [[10], [20]]), ("together", [[10, 20]])):
        (tmp_path / name).mkdir()
        world = World(tmp_path / name, SOFT_SETTINGS)
        world.commit(Event("c", 1, 5, "a"), Event("c", 2, 15, "b"), Event("c", 3, 25, "c"))
        for places in commits:
            world.commit(*(Event("t", None, at) for at in places))
        tables.append({row["id"]: (row[DELETED], row[SEQ]) for row in world.table.rows()})
    assert tables[0] == tables[1]
    assert tables[0] == {
        1: (True, Event("t", None, 10).position),
        2: (True, Event("t", None, 20).position),
        3: (False, Event("c", 3, 25).position),
    }
