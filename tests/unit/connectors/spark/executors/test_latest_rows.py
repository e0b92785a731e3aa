"""Which rows of an upsert's files later files replace."""

from __future__ import annotations

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from connect.record import TopicPartition
from connectors.spark.executors.job import FILE, POSITION, ROW, PartResult, WrittenPart, pack_table
from connectors.spark.executors.table_commits import join_parts

SCHEMA = pa.schema([("position", pa.int64()), ("row", pa.string()), ("v", pa.int64())])
KEYS = ("position", "row")
"""Named like columns of results."""

CHANGE = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]), st.booleans())
PARTS = st.lists(st.lists(CHANGE, unique_by=lambda change: change[:2], max_size=6), min_size=1, max_size=5)


def written(number: int, changes: list[tuple[int, str, bool]], *, files: int) -> tuple[PartResult, WrittenPart]:
    """A part whose rows are in turn in several files."""
    rows: list[list[tuple[int, str]]] = [[] for _ in range(files)]
    places = []
    for at, (key, name, is_deleted) in enumerate(changes):
        if is_deleted:
            places.append((key, name, -1, at))
        else:
            file = at % files
            places.append((key, name, file, len(rows[file])))
            rows[file].append((key, name))
    latest = pa.table(
        {
            "k0": pa.array([p[0] for p in places], pa.int64()),
            "k1": pa.array([p[1] for p in places], pa.string()),
            FILE: pa.array([p[2] for p in places], pa.int32()),
            ROW: pa.array([p[3] for p in places], pa.int32()),
        }
    )
    if number % 2:
        latest = latest.append_column(POSITION, pa.array([f"{number}"] * len(places), pa.string()))
    names = [(f"{number}-{file}", {"path": f"{number}-{file}"}, len(of_file)) for file, of_file in enumerate(rows) if of_file]
    if len(names) < files:  # files without rows are not written
        kept = [file for file, of_file in enumerate(rows) if of_file]
        numbers = [-1 if file < 0 else kept.index(file) for file in latest[FILE].to_pylist()]
        latest = latest.set_column(2, FILE, pa.array(numbers, pa.int32()))
    part = WrittenPart(SCHEMA, names, KEYS, pack_table(latest))
    return PartResult(TopicPartition("t", 0), number, number + 1, {"t": part}), part


@given(PARTS, st.integers(1, 3))
def test_last_change_of_each_key_wins(parts: list[list[tuple[int, str, bool]]], files: int) -> None:
    model: dict[tuple[int, str], int | None] = {}
    for number, changes in enumerate(parts):
        for key, name, is_deleted in changes:
            model[key, name] = None if is_deleted else number
    rows = join_parts([written(number, changes, files=files) for number, changes in enumerate(parts)])
    assert rows.latest is not None
    found = dict(
        zip(
            zip(*(rows.latest.rows[name].to_pylist() for name in KEYS), strict=True),
            rows.latest.deleted.to_pylist(),
            strict=True,
        )
    )
    assert found == {key: part is None for key, part in model.items()}
    live: dict[tuple[int, str], int] = {}
    for file in rows.files.files:
        assert file.keys is not None
        assert file.keys.num_rows == file.rows
        for at, row in enumerate(file.keys.to_pylist()):
            if at not in file.superseded:
                place = row["position"], row["row"]
                assert place not in live
                live[place] = int(file.path.partition("-")[0])
    assert live == {key: part for key, part in model.items() if part is not None}
    assert rows.count == len(live)
    assert rows.latest.meta.num_rows == len(model)


def test_keys_that_differ_only_in_their_bits_are_one_key() -> None:
    keys = [[0.0, math.nan], [-0.0, -math.nan]]
    schema = pa.schema([("f", pa.float64()), ("v", pa.int64())])
    parts = []
    for number, values in enumerate(keys):
        places = {FILE: pa.array([0, 0], pa.int32()), ROW: pa.array([0, 1], pa.int32())}
        latest = pa.table({"k0": pa.array(values, pa.float64()), **places})
        part = WrittenPart(schema, [(f"{number}", {"path": f"{number}"}, 2)], ("f",), pack_table(latest))
        parts.append((PartResult(TopicPartition("t", 0), number, number + 1, {"t": part}), part))
    rows = join_parts(parts)
    assert [file.superseded.tolist() for file in rows.files.files] == [[0, 1], []]
    assert rows.count == 2
