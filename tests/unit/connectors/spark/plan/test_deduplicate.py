"""The latest change per key, compared with a model that applies one change at a time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import DataError, SchemaError
from connectors.spark.config_keys import UNAVAILABLE
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.plan.deduplicate import latest_per_key, with_key_columns

VALUES = st.sampled_from(["a", "b", None, UNAVAILABLE])
EVENTS = st.lists(st.tuples(st.sampled_from("cuud"), st.integers(0, 4), VALUES, VALUES), max_size=30)


def changes(events: list[tuple[str | None, int | None, Any, Any]], *, shuffled: list[int] | None = None) -> ChangeBatch:
    count = len(events)
    order = list(range(count)) if shuffled is None else shuffled
    events = [events[i] for i in order]
    meta = make_meta(
        pa.array(order, pa.int64()),
        pa.array([e[0] for e in events], pa.string()),
        pa.nulls(count, pa.int64()),
        pa.array([0] * count, pa.int32()),
        pa.array(order, pa.int64()),
    )
    image = pa.table(
        {
            "id": pa.array([e[1] for e in events], pa.int64()),
            "x": pa.array([None if e[0] == "d" else e[2] for e in events], pa.string()),
            "y": pa.array([None if e[0] == "d" else e[3] for e in events], pa.string()),
        }
    )
    return ChangeBatch("t", meta, image, None)


def model(events: list[tuple[str, int, Any, Any]], mode: str) -> dict[int, tuple[bool, Any, Any, bool, bool]]:
    """Per key: deleted, x, y, and whether x and y are to be kept from the table."""
    state: dict[int, tuple[bool, Any, Any, bool, bool]] = {}
    for op, key, x, y in events:
        _, old_x, old_y, keep_x, keep_y = state.get(key, (False, None, None, True, True))
        if op == "d" and mode == "ignore":
            continue
        if op == "d":
            soft = mode == "soft"
            state[key] = (True, old_x, old_y, keep_x, keep_y) if soft else (True, None, None, False, False)
            continue
        nx, kx = (old_x, keep_x) if x == UNAVAILABLE else (x, False)
        ny, ky = (old_y, keep_y) if y == UNAVAILABLE else (y, False)
        state[key] = (False, nx, ny, kx, ky)
    return state


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.sampled_from(["hard", "soft", "ignore"]), st.randoms())
def test_latest_change_of_each_key_wins_and_unavailable_values_come_from_earlier_ones(
    events: Any, mode: str, random: Any
) -> None:
    order = list(range(len(events)))
    random.shuffle(order)
    latest = latest_per_key(changes(events, shuffled=order), ["id"], mode)
    rows = latest.rows.to_pylist()
    deleted = latest.deleted.to_pylist()
    keep = {c: latest.keep[c].to_pylist() if c in latest.keep else [False] * len(rows) for c in ("x", "y")}
    got = {}
    for i, row in enumerate(rows):
        kx, ky = keep["x"][i], keep["y"][i]
        got[row["id"]] = (deleted[i], None if kx else row["x"], None if ky else row["y"], kx, ky)
    assert got == model(events, mode)


@settings(max_examples=60, deadline=None)
@given(EVENTS, st.sampled_from(["hard", "soft", "ignore"]))
def test_unavailable_values_become_null_and_are_counted_where_the_config_asks_for_it(events: Any, mode: str) -> None:
    latest = latest_per_key(changes(events), ["id"], mode, unavailable_is_null=True)
    with_nulls = [(op, key, *(None if v == UNAVAILABLE else v for v in (x, y))) for op, key, x, y in events]
    expected = latest_per_key(changes(with_nulls), ["id"], mode)
    assert (latest.rows, latest.meta, latest.keep) == (expected.rows, expected.meta, expected.keep)
    last = {key: (op, x, y) for op, key, x, y in events if (op, mode) != ("d", "ignore")}
    assert latest.unavailable == sum((x, y).count(UNAVAILABLE) for op, x, y in last.values() if op != "d")


def test_messages_are_skipped_and_a_truncate_drops_earlier_changes() -> None:
    events: list[Any] = [("c", 1, "a", "a"), ("t", None, None, None), ("c", 2, "b", "b"), ("m", None, None, None)]
    latest = latest_per_key(changes(events), ["id"], "hard")
    assert latest.truncate is not None
    assert latest.rows["id"].to_pylist() == [2]
    assert latest_per_key(changes(events), ["id"], "ignore").rows.num_rows == 2


@pytest.mark.parametrize(
    ("events", "last"),
    [("c- c+ t", "0.0"), ("c+ c- t", "-0.0"), ("t c- c+ t", "0.0"), ("c- t c+ t", "0.0"), ("c- t", "-0.0"), ("c- t c+", "0.0")],
)
def test_a_truncate_leaves_a_soft_deleted_row_the_key_of_its_last_change(events: str, last: str) -> None:
    steps = events.split()
    batch = changes([(step[0], None, "a", "b") for step in steps])
    ids = pa.array([{"+": 0.0, "-": -0.0}.get(step[-1]) for step in steps])
    image = batch.image.set_column(0, "id", ids)
    meta = batch.meta.append_column("topic", pa.array(["t"] * len(steps)))
    latest = latest_per_key(replace(batch, meta=meta, image=image), ("id",), "soft")
    assert [str(key) for key in latest.rows["id"].to_pylist()] == [last]


def test_the_placeholder_is_configurable() -> None:
    events: list[Any] = [("u", 1, "__gone", UNAVAILABLE)]
    latest = latest_per_key(changes(events), ["id"], "hard", "__gone")
    assert {name: mask.to_pylist() for name, mask in latest.keep.items()} == {"x": [True]}


def test_key_columns_come_from_the_record_key_first() -> None:
    base = changes([("c", 1, "a", "a"), ("tombstone", None, None, None)])
    keyed = ChangeBatch("t", base.meta, base.image, pa.table({"id": pa.array([1, 7], pa.int32())}))
    assert with_key_columns(keyed, ["id"], False).image["id"].to_pylist() == [1, 7]
    with pytest.raises(DataError, match=r"topic t, partition 0, offset 1: key column id has no value"):
        with_key_columns(base, ["id"], False)
    # With key.columns a bare tombstone only repeats the delete before it.
    assert with_key_columns(base, ["id"], True).num_rows == 1


def test_a_type_that_cannot_be_a_key_is_refused_by_name() -> None:
    found = changes([("c", 1, "a", "a"), ("c", 2, "a", "a")])
    lists = found.image.set_column(0, "id", pa.array([[1], [2]]))
    with pytest.raises(SchemaError, match=r"a column of type list<.*> cannot be a key"):
        latest_per_key(ChangeBatch("t", found.meta, lists, None), ["id"], "hard")


def test_a_row_with_another_key_than_its_record_is_refused() -> None:
    base = changes([(None, 1, "a", "a"), (None, 100, "a", "a"), ("d", 3, None, None), ("tombstone", None, None, None)])

    def keyed(*keys: int | None) -> ChangeBatch:
        return ChangeBatch("t", base.meta, base.image, pa.table({"id": pa.array(keys, pa.int32())}))

    assert with_key_columns(keyed(1, None, 3, 7), ["id"], False).image["id"].to_pylist() == [1, 100, 3, 7]
    for is_configured in (False, True):
        with pytest.raises(
            DataError, match="offset 1: the record key and the row have different values in the field id, 1 and 100"
        ):
            with_key_columns(keyed(1, 1, 3, 7), ["id"], is_configured)


def test_the_row_of_a_change_event_is_that_of_its_key() -> None:
    """Sources mask columns of rows, and not of keys."""
    base = changes([("c", 1, "a", "a"), ("d", 0, "a", "a")])
    keyed = ChangeBatch("t", base.meta, base.image, pa.table({"id": pa.array([1, 1], pa.int32())}))
    assert with_key_columns(keyed, ["id"], False).image["id"].to_pylist() == [1, 1]


def test_keys_of_floating_point_that_are_equal_are_one_value() -> None:
    base = changes([(None, 1, "a", "a"), (None, 2, "a", "a")])
    own = pa.chunked_array([pa.array([math.nan, 0.0])])
    image = base.image.set_column(base.image.column_names.index("id"), "id", own)
    keyed = ChangeBatch("t", base.meta, image, pa.table({"id": pa.array([math.nan, -0.0])}))
    assert with_key_columns(keyed, ["id"], False).num_rows == 2


def test_whole_keys_that_were_read_as_doubles_are_integers() -> None:
    """Without a schema, one key of another type makes the column that of both."""
    base = changes([("c", 1, "a", "a"), ("c", 2, "a", "a")])
    keyed = ChangeBatch("t", base.meta, base.image, pa.table({"id": pa.array([1.0, 2.0])}))
    assert with_key_columns(keyed, ["id"], False).image["id"].to_pylist() == [1, 2]
    with pytest.raises(DataError, match=r"in the field id of the record key, DOUBLE, does not fit"):
        with_key_columns(replace(keyed, keys=pa.table({"id": pa.array([1.0, 7.5])})), ["id"], False)
