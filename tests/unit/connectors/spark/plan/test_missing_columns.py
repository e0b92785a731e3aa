"""``missing.columns=keep``: batches of any size give the rows that the changes give one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.decode.present_fields import fields_text
from connectors.spark.plan.deduplicate import latest_per_key

COLUMNS = ("x", "y")
Change = tuple[str, int, dict[str, str | None]]
Rows = dict[int, dict[str, Any]]

rows = st.dictionaries(st.sampled_from(COLUMNS), st.sampled_from(["a", "b", None, UNAVAILABLE]))
changes = st.lists(st.tuples(st.sampled_from("cuud"), st.integers(0, 3), rows), max_size=24)


def batch(part: Sequence[Change], first: int, mode: str = "hard") -> ChangeBatch:
    numbers = pa.array(range(first, first + len(part)), pa.int64())
    fields = pa.array([fields_text(["id", *row]) for _, _, row in part], pa.string())
    meta = make_meta(
        numbers,
        pa.array([op for op, _, _ in part], pa.string()),
        pa.nulls(len(part), pa.int64()),
        pa.array([0] * len(part), pa.int32()),
        numbers,
        fields=fields,
    )
    image = {"id": pa.array([id_ for _, id_, _ in part], pa.int64())}
    for name in COLUMNS:
        # A delete may have the values of before, with which a soft delete inserts a row that the table lacks.
        values = ["before" if op == "d" and mode != "soft" else row.get(name) for op, _, row in part]
        image[name] = pa.array(values, pa.string())
    return ChangeBatch("t", meta, pa.table(image), None)


def apply(table: Rows, changes: ChangeBatch, mode: str) -> int:
    """Does what a table does with the plan; returns the number of values that became null because they are unavailable."""
    latest = latest_per_key(changes, ["id"], mode, may_lack=COLUMNS)
    lost = 0
    for number, row in enumerate(latest.rows.to_pylist()):
        id_, is_deleted = row.pop("id"), latest.deleted[number].as_py()
        old = table.pop(id_, None)
        if is_deleted and mode == "hard":
            continue
        for name, mask in latest.keep.items():
            if mask[number].as_py():
                row[name] = row[name] if old is None else old[name]
                is_lost = old is None and not is_deleted and latest.unavailable_in(name)[number].as_py()
                lost += is_lost
        table[id_] = {name: row[name] for name in COLUMNS}
    return lost


def expected(part: Sequence[Change], mode: str) -> Rows:
    table: Rows = {}
    for op, id_, row in part:
        old = table.get(id_)
        if op == "d":
            if mode == "hard":
                table.pop(id_, None)
            elif mode == "soft" and old is None:
                table[id_] = {n: None if row.get(n) == UNAVAILABLE else row.get(n) for n in COLUMNS}
            continue
        lacking = {name for name in COLUMNS if row.get(name, UNAVAILABLE) == UNAVAILABLE}
        table[id_] = {n: (None if old is None else old[n]) if n in lacking else row[n] for n in COLUMNS}
    return table


@settings(max_examples=50, deadline=None)
@given(changes, st.lists(st.integers(1, 9), min_size=24, max_size=24), st.sampled_from(["hard", "soft", "ignore"]))
def test_batches_of_any_size_give_the_rows_of_the_changes(part: list[Change], sizes: list[int], mode: str) -> None:
    table: Rows = {}
    first = lost = 0
    for size in sizes:
        if some := part[first : first + size]:
            lost += apply(table, batch(some, first, mode), mode)
        first += size
    assert table == expected(part, mode)
    if not any(UNAVAILABLE in row.values() for _, _, row in part):
        assert lost == 0  # a column that no record has is no unavailable value


def test_values_are_unavailable_if_one_of_the_changes_had_the_column() -> None:
    part: list[Change] = [("u", 1, {"x": UNAVAILABLE}), ("u", 1, {"y": "b"}), ("u", 2, {"y": "b"})]
    latest = latest_per_key(batch(part, 0), ["id"], "hard", may_lack=COLUMNS)
    assert latest.rows["id"].to_pylist() == [1, 2]
    assert latest.keep["x"].to_pylist() == [True, True]
    assert latest.unavailable_in("x").to_pylist() == [True, False]


def test_insert_after_a_soft_delete_of_an_unknown_row_has_its_values_in_one_commit_and_in_two() -> None:
    part: list[Change] = [
        ("d", 1, {"x": "a", "y": "b"}),
        ("u", 1, {"x": "c"}),
        ("d", 2, {"y": "b"}),
        ("u", 2, {"y": UNAVAILABLE}),
    ]
    for sizes in ([4], [1, 1, 1, 1]):
        table: Rows = {}
        first = lost = 0
        for size in sizes:
            lost += apply(table, batch(part[first : first + size], first, "soft"), "soft")
            first += size
        assert table == {1: {"x": "c", "y": "b"}, 2: {"x": None, "y": "b"}}
        assert lost == 0
