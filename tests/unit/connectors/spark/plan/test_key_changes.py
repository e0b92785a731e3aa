"""Changes of the primary key: large values of the new row come from the old one, through any chain of changes, and commits."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import CURRENT, DELETED, SEQ, SOURCE, UNAVAILABLE, VALID_FROM, VALID_TO
from connectors.spark.decode.change_batch import OLD_KEY, ChangeBatch, make_meta
from connectors.spark.schema_settings import SchemaSettings
from connectors.spark.tables.writer import TableWriter
from tests.support.files_only_table import FilesOnlyTable, Storage

LOG_SETTINGS = TableConfig("upsert", ("id",), "hard", "add", (), keep_tombstones=True)
SOURCE_SETTINGS = replace(LOG_SETTINGS, metadata_columns=(SEQ,), sequence_by=SOURCE)
SCD2_SETTINGS = replace(LOG_SETTINGS, write_mode="scd2", metadata_columns=(SEQ, VALID_FROM, VALID_TO, CURRENT))
ALL_SETTINGS = {"log": LOG_SETTINGS, "source": SOURCE_SETTINGS, "scd2": SCD2_SETTINGS}


@dataclass(frozen=True, slots=True)
class Change:
    op: str
    id: int
    at: int
    x: str | None = None
    y: str | None = None
    old: int | None = None


class Table:
    """A table of one connector, with one partition or several."""

    def __init__(self, folder: Path, config: TableConfig, partitions: int = 1) -> None:
        self.storage = Storage(folder)
        self.config = config
        self.partitions = partitions
        self.has_positions = True
        self.next = 0
        self.restart()

    def restart(self) -> None:
        self.files = FilesOnlyTable(self.storage)
        self.writer = TableWriter("t", self.config, self.files, lambda topic: TopicIdentity("cluster", "-", self.partitions))

    def commit(self, *changes: Change, columns: tuple[str, ...] = ("x", "y")) -> None:
        """Each change is in the partition of its key."""
        count, first = len(changes), self.next
        self.next += count
        numbers = pa.array(range(first, first + count), pa.int64())
        positions = [f"{0:020d}.{c.at:020d}" if self.has_positions else None for c in changes]
        meta = make_meta(
            numbers,
            pa.array([c.op for c in changes], pa.string()),
            pa.array([c.at for c in changes], pa.int64()),
            pa.array([c.id % self.partitions for c in changes], pa.int32()),
            numbers,
            positions=pa.array(positions, pa.string()),
        )
        if any(c.old is not None for c in changes):
            olds = pa.array([None if c.old is None else {"id": c.old} for c in changes], pa.struct([("id", pa.int32())]))
            meta = meta.append_column(OLD_KEY, olds)
        image = pa.table({n: pa.array([getattr(c, n) for c in changes], pa.string()) for n in columns})
        image = image.add_column(0, "id", pa.array([c.id for c in changes], pa.int64()))
        assigned = [TopicPartition("t", number) for number in range(self.partitions)]
        self.writer.commit([ChangeBatch("t", meta, image, None)], assigned)

    def rows(self) -> dict[int, tuple[str | None, str | None]]:
        rows = [row for row in self.files.rows() if row.get(CURRENT, True)]
        found = {row["id"]: (row["x"], row["y"]) for row in rows}
        assert len(found) == len(rows)
        return found


Rows = dict[int, tuple[str | None, str | None]]


def make_transactions(chance: random.Random) -> tuple[list[list[Change]], Rows]:
    """Transactions of the source, each with all records of its key changes, and the table after them."""
    rows: Rows = {}
    found: list[list[Change]] = []

    def send(changes: list[Change]) -> None:
        if not found or chance.random() < 0.5:
            found.append([])
        found[-1].extend(changes)

    for at in range(1, chance.randint(2, 15)):
        id_ = chance.randrange(4)
        value = chance.choice([None, f"v{at}"])
        if id_ not in rows:
            rows[id_] = (f"x{at}", value)
            send([Change("c", id_, at, *rows[id_])])
        elif (free := [i for i in range(5) if i not in rows]) and chance.random() < 0.5:
            new = chance.choice(free)
            x, y = rows.pop(id_)
            rows[new] = (x, value) if chance.random() < 0.5 else (x, y)
            shown = rows[new][1] if rows[new][1] != y else UNAVAILABLE
            send([Change("d", id_, at), Change("c", new, at, UNAVAILABLE, shown, old=id_)])
        elif chance.random() < 0.2:
            del rows[id_]
            send([Change("d", id_, at)])
        else:
            rows[id_] = (rows[id_][0], value)
            send([Change("u", id_, at, UNAVAILABLE, value)])
    return found, rows


@given(st.integers(0, 1 << 32), st.sampled_from(sorted(ALL_SETTINGS)))
def test_large_values_follow_the_row_to_its_new_key(seed: int, mode: str) -> None:
    chance = random.Random(seed)
    transactions, rows = make_transactions(chance)
    with TemporaryDirectory() as folder:
        table = Table(Path(folder), ALL_SETTINGS[mode])
        for changes in transactions:
            if chance.random() < 0.3:
                table.restart()
            if mode == "source":
                chance.shuffle(changes)
            table.commit(*changes)
        assert table.rows() == rows
        assert table.files.unavailable == 0


@pytest.fixture(params=sorted(ALL_SETTINGS))
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Table:
    return Table(tmp_path, ALL_SETTINGS[request.param])


def test_keys_can_be_swapped_in_one_commit(table: Table) -> None:
    table.commit(Change("c", 1, 1, "one"), Change("c", 2, 2, "two"))
    table.commit(
        Change("d", 1, 3),
        Change("c", 3, 3, UNAVAILABLE, old=1),
        Change("d", 2, 4),
        Change("c", 1, 4, UNAVAILABLE, old=2),
        Change("d", 3, 5),
        Change("c", 2, 5, UNAVAILABLE, old=3),
    )
    assert table.rows() == {1: ("two", None), 2: ("one", None)}


def test_a_row_can_have_its_first_key_again(table: Table) -> None:
    table.commit(Change("c", 1, 1, "one"))
    table.commit(
        Change("d", 1, 2),
        Change("c", 2, 2, UNAVAILABLE, old=1),
        Change("d", 2, 3),
        Change("c", 1, 3, UNAVAILABLE, old=2),
        Change("u", 1, 4, UNAVAILABLE, "y"),
    )
    assert table.rows() == {1: ("one", "y")}
    assert table.files.unavailable == 0


def test_a_value_is_null_and_counted_if_the_old_row_is_gone(table: Table) -> None:
    table.commit(Change("c", 1, 1, "one"))
    table.commit(Change("d", 1, 2))
    table.commit(Change("c", 2, 2, UNAVAILABLE, "y", old=1))
    assert table.rows() == {2: (None, "y")}
    assert table.files.unavailable == 1


@pytest.mark.parametrize("mode", ["log", "scd2"])
def test_a_column_that_the_record_lacks_keeps_the_value_of_the_old_row(mode: str, tmp_path: Path) -> None:
    table = Table(tmp_path, replace(ALL_SETTINGS[mode], schema=SchemaSettings(keeps_missing=True)))
    table.commit(Change("c", 1, 1, "one", "y1"), Change("c", 3, 1, "three", "y3"))
    table.commit(
        Change("d", 1, 2), Change("c", 2, 2, UNAVAILABLE, old=1), Change("d", 3, 3), Change("c", 3, 3, "new"), columns=("x",)
    )
    assert table.rows() == {2: ("one", "y1"), 3: ("new", None)}
    assert table.files.unavailable == 0


def test_a_newer_row_of_the_old_key_gives_no_values(tmp_path: Path) -> None:
    table = Table(tmp_path, SOURCE_SETTINGS)
    table.commit(Change("c", 1, 5, "another"))
    table.commit(Change("d", 1, 2), Change("c", 2, 2, UNAVAILABLE, old=1))
    assert table.rows() == {1: ("another", None), 2: (None, None)}


def interleave(changes: list[Change], partitions: int, chance: random.Random) -> list[Change]:
    """The changes as they arrive: in order within each partition only."""
    queues = [[c for c in changes if c.id % partitions == number] for number in range(partitions)]
    found = []
    while waiting := [queue for queue in queues if queue]:
        found.append(chance.choice(waiting).pop(0))
    return found


@given(st.integers(0, 1 << 32), st.sampled_from(sorted(ALL_SETTINGS)), st.booleans())
def test_large_values_follow_the_row_to_another_partition(seed: int, mode: str, has_positions: bool) -> None:
    chance = random.Random(seed)
    transactions, rows = make_transactions(chance)
    with TemporaryDirectory() as folder:
        table = Table(Path(folder), ALL_SETTINGS[mode], 3)
        table.has_positions = has_positions or mode == "source"
        for changes in transactions:
            table.commit(*interleave(changes, 3, chance))
        assert table.rows() == rows
        assert table.files.unavailable == 0


@pytest.mark.parametrize("splits", [False, True])
@pytest.mark.parametrize("mode", sorted(ALL_SETTINGS))
def test_another_row_with_the_old_key_gives_no_values_across_partitions(mode: str, splits: bool, tmp_path: Path) -> None:
    table = Table(tmp_path, ALL_SETTINGS[mode], 2)
    table.commit(Change("c", 1, 1, "first"))
    odd, even = [Change("d", 1, 2), Change("c", 1, 3, "another")], [Change("c", 2, 2, UNAVAILABLE, "y", old=1)]
    for changes in (odd, even) if splits else ([*odd, *even],):
        table.commit(*changes)
    # Across commits, the old row is gone.
    assert table.rows() == {1: ("another", None), 2: (None if splits else "first", "y")}
    assert table.files.unavailable == splits


@pytest.mark.parametrize("mode", sorted(ALL_SETTINGS))
def test_an_old_row_whose_changes_may_still_come_gives_no_values(mode: str, tmp_path: Path) -> None:
    table = Table(tmp_path, ALL_SETTINGS[mode], 2)
    table.commit(Change("c", 1, 1, "outdated"))
    table.commit(Change("c", 2, 3, UNAVAILABLE, "y", old=1))
    table.commit(Change("u", 1, 2, "late"), Change("d", 1, 3))
    assert table.rows() == {2: (None, "y")}
    assert table.files.unavailable == 1


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("mode", ["soft", "ignore", "source"])
def test_the_row_that_had_the_new_key_before_gives_no_values(mode: str, partitions: int, tmp_path: Path) -> None:
    settings = {
        "soft": replace(LOG_SETTINGS, delete_mode="soft", metadata_columns=(DELETED,)),
        "ignore": replace(LOG_SETTINGS, delete_mode="ignore"),
        "source": replace(SOURCE_SETTINGS, delete_mode="soft", metadata_columns=(SEQ, DELETED)),
    }
    table = Table(tmp_path, settings[mode], partitions)
    table.commit(Change("c", 1, 1, "alice"), Change("c", 2, 2, "bob"))
    table.commit(Change("d", 2, 3))
    table.commit(Change("d", 1, 4))
    table.commit(Change("c", 2, 4, UNAVAILABLE, "y", old=1))
    table.commit(Change("u", 2, 5, UNAVAILABLE, "z"))
    knows = partitions == 1 and mode != "source"  # the row is still there, and older than the change
    assert table.rows()[2] == ("alice" if knows else None, "z")
    assert table.files.unavailable == (not knows)


@pytest.mark.parametrize("sequence_by", ["arrival", SOURCE])
@pytest.mark.parametrize("with_tombstone", [False, True])
@pytest.mark.parametrize("ends", [(3, 5), (3, 6), (6,)])
def test_a_deleted_row_keeps_the_values_that_it_had_with_its_old_key(
    ends: tuple[int, ...], with_tombstone: bool, sequence_by: str, tmp_path: Path
) -> None:
    settings = LOG_SETTINGS if sequence_by == "arrival" else SOURCE_SETTINGS
    table = Table(tmp_path, replace(settings, delete_mode="soft", metadata_columns=(SEQ, DELETED)))
    changes = [
        Change("c", 1, 1, "alice", "y"),
        Change("c", 2, 2, "bob"),
        Change("d", 2, 3),
        Change("d", 1, 4),
        Change("c", 2, 4, UNAVAILABLE, "z", old=1),
        Change("d", 2, 5),
        *([Change("d", 2, 6)] if with_tombstone else []),
    ]
    for start, end in itertools.pairwise((0, *ends, None)):
        if changes[start:end]:
            table.commit(*changes[start:end])
    assert table.rows() == {1: ("alice", "y"), 2: ("alice", "z")}
    assert table.files.unavailable == 0
