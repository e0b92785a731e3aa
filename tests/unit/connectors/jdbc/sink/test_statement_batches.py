"""Changes of a table are combined into few statements with the same result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from connect.data.schema import Schema, SchemaBuilder
from connect.record import SinkRecord
from connectors.jdbc.options import InsertMode, SinkField
from connectors.jdbc.sink.row_changes import Operation, RowChanges, RowShape
from connectors.jdbc.sink.statement_batches import StatementRows, group_by_table, plan_statements, split_batches, split_in_halves
from connectors.jdbc.table_name import TableName

TABLE = TableName("t")
KEY = SinkField("k", Schema.INT32, is_key=True)
WRITE_A = RowShape(TABLE, Operation.WRITE, (KEY, SinkField("a", Schema.OPTIONAL_STRING)))
WRITE_B = RowShape(TABLE, Operation.WRITE, (SinkField("b", Schema.OPTIONAL_STRING), KEY))
DELETE = RowShape(TABLE, Operation.DELETE, (KEY,))
TRUNCATE = RowShape(TABLE, Operation.TRUNCATE, ())
SHAPES = (WRITE_A, WRITE_B, DELETE)


def change(shape: RowShape, *rows: Sequence[Any]) -> RowChanges:
    return RowChanges(shape, rows, [SinkRecord("t", 0, None, None, None, None, i) for i in range(len(rows))])


def row(shape: RowShape, key: int, value: str) -> tuple[Any, ...]:
    return tuple(key if field.is_key else value for field in shape.fields)


def applied(done: Iterable[StatementRows], mode: InsertMode) -> dict[int, dict[str, str]]:
    """What a table has afterwards. A statement that meets a key twice is an error, as it is in PostgreSQL."""
    table: dict[int, dict[str, str]] = {1: {"a": "old"}, 2: {"a": "old", "b": "old"}}
    for step in done:
        if step.shape is TRUNCATE:
            table.clear()
            continue
        seen = set()
        for values in step.rows:
            named = dict(zip((field.name for field in step.shape.fields), values, strict=True))
            key = named.pop("k")
            assert mode is InsertMode.INSERT or key not in seen
            seen.add(key)
            if step.shape is DELETE:
                table.pop(key, None)
            elif mode is InsertMode.UPSERT:
                table.setdefault(key, {}).update(named)
            elif key in table:
                table[key].update(named)
    return table


CHANGES = st.lists(
    st.tuples(
        st.sampled_from((*SHAPES, TRUNCATE)), st.lists(st.tuples(st.integers(1, 4), st.text("xyz", max_size=1)), max_size=3)
    ),
    max_size=8,
)


@given(CHANGES, st.sampled_from((InsertMode.UPSERT, InsertMode.UPDATE)))
def test_statements_have_the_same_result_as_single_changes(made: list[Any], mode: InsertMode) -> None:
    changes = [
        change(shape, *((() if shape is TRUNCATE else row(shape, key, value)) for key, value in rows))
        for shape, rows in made
        if rows
    ]
    one_by_one = [StatementRows(one.shape, [values]) for one in changes for values in one.rows]
    assert applied(plan_statements(changes, mode), mode) == applied(one_by_one, mode)


@given(CHANGES, st.integers(1, 5))
def test_batches_have_every_record_once_and_in_order(made: list[Any], most: int) -> None:
    changes = [change(shape, *(row(shape, *values) for values in rows)) for shape, rows in made if rows]
    parts = list(split_batches(changes, most))
    assert all(sum(map(len, part)) == most for part in parts[:-1])
    assert [(one.shape, r) for part in parts for one in part for r in one.rows] == [(c.shape, r) for c in changes for r in c.rows]


def test_a_batch_of_upserts_and_deletes_is_one_delete_and_one_upsert() -> None:
    changes = [
        change(WRITE_A, (1, "x"), (2, "y"), (1, "z")),
        change(DELETE, (2,), (3,)),
        change(WRITE_A, (3, "back"), (4, "new")),
    ]
    assert [(step.shape, step.rows) for step in plan_statements(changes, InsertMode.UPSERT)] == [
        (DELETE, [(2,), (3,)]),
        (WRITE_A, [(1, "z"), (3, "back"), (4, "new")]),
    ]


def test_alternating_schemas_need_one_statement_each_while_their_keys_differ() -> None:
    changes = [change(WRITE_A, (1, "x")), change(WRITE_B, ("y", 2)), change(WRITE_A, (3, "z")), change(WRITE_B, ("y", 4))]
    assert [step.shape for step in plan_statements(changes, InsertMode.UPSERT)] == [WRITE_A, WRITE_B]
    assert [step.shape for step in plan_statements([*changes, change(WRITE_A, (2, "x"))], InsertMode.UPSERT)] == [
        WRITE_A,
        WRITE_B,
        WRITE_A,
    ]


def test_inserts_keep_every_row_in_its_place() -> None:
    changes = [change(WRITE_A, (1, "x")), change(WRITE_A, (1, "y")), change(DELETE, (1,)), change(WRITE_A, (1, "z"))]
    assert [(step.shape, list(step.rows)) for step in plan_statements(changes, InsertMode.INSERT)] == [
        (WRITE_A, [(1, "x"), (1, "y")]),
        (DELETE, [(1,)]),
        (WRITE_A, [(1, "z")]),
    ]


def test_keys_of_several_columns_are_one_key_whatever_their_order_in_the_row() -> None:
    other = SinkField("l", Schema.STRING, is_key=True)
    write = RowShape(TABLE, Operation.WRITE, (other, SinkField("a", Schema.STRING), KEY))
    delete = RowShape(TABLE, Operation.DELETE, (KEY, other))
    done = list(plan_statements([change(write, ("p", "x", 1), ("q", "x", 1)), change(delete, (1, "p"))], InsertMode.UPSERT))
    assert [(step.shape, step.rows) for step in done] == [(delete, [(1, "p")]), (write, [("q", "x", 1)])]


def test_unhashable_keys_are_distinguished() -> None:
    key = SinkField("k", SchemaBuilder.array(Schema.INT32).build(), is_key=True)
    shape = RowShape(TABLE, Operation.WRITE, (key, SinkField("a", Schema.STRING)))
    done = list(plan_statements([change(shape, ([1], "x"), ([2], "y"), ([1], "z"))], InsertMode.UPSERT))
    assert [step.rows for step in done] == [[([1], "z"), ([2], "y")]]


def test_a_change_of_key_columns_ends_the_statement() -> None:
    wide = RowShape(TABLE, Operation.WRITE, (KEY, SinkField("l", Schema.STRING, is_key=True)))
    done = list(plan_statements([change(WRITE_A, (1, "x")), change(wide, (1, "p")), change(DELETE, (1,))], InsertMode.UPSERT))
    assert [step.shape for step in done] == [WRITE_A, wide, DELETE]


def test_each_table_has_its_changes() -> None:
    other = RowShape(TableName("u"), Operation.WRITE, (KEY,))
    one, two, three = change(WRITE_A, (1, "x")), change(other, (1,)), change(DELETE, (1,))
    assert list(group_by_table([one, two, three])) == [[one, three], [two]]


def test_halves_split_within_a_run() -> None:
    first, second = split_in_halves([change(WRITE_A, (1, "x"), (2, "y"), (3, "z")), change(DELETE, (1,))])
    assert [list(one.rows) for one in first] == [[(1, "x"), (2, "y")]]
    assert [list(one.rows) for one in second] == [[(3, "z")], [(1,)]]
