"""Schema contracts of tables, and renamed fields: what is left of records that would change their table."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.config.schema_contracts import ContractMode, ContractRules, FrozenSchemaError
from connect.errors import ConnectError, DataError
from connectors.spark.config import TableConfig
from connectors.spark.config_keys import APPEND, UPSERT
from connectors.spark.decode.change_batch import ChangeBatch, make_meta
from connectors.spark.decode.present_fields import fields_text
from connectors.spark.decode.rescued_json import RESCUED
from connectors.spark.plan.evolution import Columns
from connectors.spark.plan.renames import rename_fields
from connectors.spark.plan.rows import RowPreparation
from connectors.spark.schema_settings import SchemaSettings

TABLE: Columns = {"id": pa.int64(), "n": pa.int32(), "s": pa.struct([("x", pa.int64())])}
SETTINGS = TableConfig(UPSERT, ("id",), "hard", "widen", (), keep_tombstones=True)
FREEZE, DROP, QUEUE, EVOLVE = (ContractMode(m) for m in ("freeze", "drop_column", "dead_letter_queue", "evolve"))


def changes(image: pa.Table, ops: list[str] | None = None, fields: list[str] | None = None, keys: pa.Table | None = None) -> Any:
    count = image.num_rows
    numbers = pa.array(range(count), pa.int64())
    meta = make_meta(
        numbers, pa.array(ops or ["c"] * count), pa.nulls(count, pa.int64()), pa.array([0] * count, pa.int32()), numbers,
        fields=None if fields is None else pa.array(fields, pa.string()),
    )  # fmt: skip
    return ChangeBatch("t", meta, image, keys)


def prepare(rules: ContractRules, image: pa.Table, base: TableConfig = SETTINGS, **own: Any) -> Any:
    settings = replace(base, schema=SchemaSettings(contract=rules))
    return RowPreparation("orders", settings).prepare(TABLE, [changes(image, **own)], ("id",))


NEW = pa.table({"id": [1, 2], "n": pa.array([1, 2], pa.int32()), "note": [None, "x"]})
WIDE = pa.table({"id": [1, 2], "n": pa.array([5, 2**40], pa.int64())})
NESTED = pa.table({"id": [1, 2], "s": pa.array([{"x": 1, "y": None}, {"x": 2, "y": 3}])})


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (NEW, "offset 1: the table has no column note. Alter the table (ADD COLUMNS (`note` STRING))"),
        (WIDE, "offset 1: column n is INT, which does not hold the value. Alter the table (ALTER COLUMN `n` TYPE BIGINT)"),
        (NESTED, "offset 1: column s is STRUCT<`x`: BIGINT>, which does not hold the value"),
    ],
)
def test_freeze_fails_the_task_and_the_dead_letter_queue_gets_the_record(image: pa.Table, says: str) -> None:
    with pytest.raises(FrozenSchemaError, match=re.escape(says)):
        prepare(ContractRules(FREEZE), image)
    with pytest.raises(DataError, match=re.escape(says.partition(".")[0].partition(" Alter")[0])) as refused:
        prepare(ContractRules(QUEUE), image)
    assert "the schema contract of table orders is dead_letter_queue" in refused.value.message
    # Records without such a value do not change the table.
    for mode in (FREEZE, QUEUE, DROP):
        prepared = prepare(ContractRules(mode), image.slice(0, 1))
        assert set(prepared.columns) <= set(TABLE)
        assert not prepared.dropped


def test_dropped_values_are_counted_and_the_rest_is_written() -> None:
    prepared = prepare(ContractRules(DROP), NEW)
    assert (prepared.changes[0].image.to_pylist(), prepared.dropped) == ([{"id": 1, "n": 1}, {"id": 2, "n": 2}], {"note": 1})
    prepared = prepare(ContractRules(DROP), WIDE)
    assert (prepared.changes[0].image.to_pylist(), prepared.dropped) == ([{"id": 1, "n": 5}, {"id": 2, "n": None}], {"n": 1})
    prepared = prepare(ContractRules(DROP), NESTED)
    assert prepared.changes[0].image["s"].to_pylist() == [{"x": 1}, {"x": 2}]
    assert prepared.dropped == {"s": 1}
    assert prepared.incoming["n" if "n" in prepared.incoming else "s"] in TABLE.values()


def test_the_contract_of_a_column_precedes_that_of_its_table() -> None:
    rules = ContractRules(FREEZE, ((re.compile(r"orders\.note"), DROP), (re.compile("orders"), EVOLVE)))
    assert prepare(rules, NEW).dropped == {"note": 1}
    assert prepare(rules, WIDE).columns["n"] == pa.int64()  # widened


def test_deletes_write_no_values_and_keys_are_never_dropped() -> None:
    prepared = prepare(ContractRules(FREEZE), NEW, ops=["c", "d"])
    assert prepared.changes[0].num_rows == 2
    with pytest.raises(FrozenSchemaError, match="would change, but it is part of the key"):
        prepare(ContractRules(DROP), pa.table({"id": ["1", "x"]}))


@pytest.mark.parametrize(
    ("mode", "evolution", "kept"), [(DROP, "add", None), (DROP, "lenient", None), (EVOLVE, "lenient", '{"n":1.50}')]
)
def test_values_that_did_not_fit_when_they_were_decoded_obey_the_contract(mode: Any, evolution: str, kept: str | None) -> None:
    image = pa.table({"id": [1], "n": pa.nulls(1, pa.int32()), RESCUED: ['{"n":1.50}']})
    base = replace(SETTINGS, write_mode=APPEND, schema_evolution=evolution)
    prepared = prepare(ContractRules(mode), image, base)
    assert prepared.changes[0].image.to_pylist()[0].get("_rescued_data") == kept
    assert prepared.dropped == ({"n": 1} if mode is DROP else {})


def test_values_that_did_not_fit_are_errant_without_a_contract() -> None:
    image = pa.table({"id": [1], RESCUED: ['{"n":1.50}']})
    with pytest.raises(DataError, match=r"offset 0: field n: 1\.50 does not have the type of its column"):
        prepare(ContractRules(), image, replace(SETTINGS, write_mode=APPEND))
    with pytest.raises(FrozenSchemaError, match=r"field n: 1\.50"):
        prepare(ContractRules(FREEZE), image, replace(SETTINGS, write_mode=APPEND))


@pytest.mark.parametrize("mode", [FREEZE, DROP, QUEUE, EVOLVE])
def test_values_of_a_deleted_row_that_did_not_fit_change_nothing(mode: ContractMode) -> None:
    image = pa.table({"id": [1, 2], RESCUED: ['{"n":1.50}', None]})
    prepared = prepare(ContractRules(mode), image, ops=["d", "c"])
    assert (prepared.changes[0].image.to_pylist(), prepared.dropped) == ([{"id": 1}, {"id": 2}], {})
    with pytest.raises((FrozenSchemaError, DataError), match=r"offset 1: field n: 1\.50"):
        prepare(ContractRules(QUEUE if mode is DROP else mode), image.take([1, 0]), ops=["d", "c"])


RENAMES = {"old": "new", "older": "new"}
records = st.lists(st.tuples(st.sampled_from(["old", "older", "new", "other"]), st.none() | st.integers(0, 9)), min_size=1)


@given(records)
def test_a_column_has_the_values_of_all_its_names(given_records: list[tuple[str, int | None]]) -> None:
    names = ["old", "older", "new", "other"]
    image = pa.table({n: pa.array([v if f == n else None for f, v in given_records], pa.int64()) for n in names})
    fields = [fields_text([f]) for f, _ in given_records]
    found = rename_fields(changes(image, fields=fields), RENAMES)
    assert found.image.column_names == ["new", "other"]
    assert found.image["new"].to_pylist() == [None if f == "other" else v for f, v in given_records]
    assert found.meta["fields"].to_pylist() == [fields_text(["other" if f == "other" else "new"]) for f, _ in given_records]


def test_a_record_with_both_names_is_refused_even_if_one_is_null() -> None:
    image = pa.table({"old": pa.array([1, 2]), "new": pa.array([None, None], pa.int64())})
    one, both = fields_text(["old"]), fields_text(["old", "new"])
    assert rename_fields(changes(image, fields=[one, one]), RENAMES).image["new"].to_pylist() == [1, 2]
    with pytest.raises(DataError, match=r"offset 1: the record has the fields old and new, and .* into the column new"):
        rename_fields(changes(image, fields=[one, both]), RENAMES)
    with pytest.raises(DataError, match="offset 0: the record has the fields old and new"):
        rename_fields(changes(image), RENAMES)  # the schema has both


def test_fields_of_keys_and_defaults_are_renamed() -> None:
    keys = pa.table({"old": [1, None], "new": [None, 2]})
    batch = replace(changes(pa.table({"x": [1, 2]}), keys=keys), defaults={"old": pa.scalar(5)})
    found = rename_fields(batch, RENAMES)
    assert found.keys is not None
    assert found.keys.to_pydict() == {"new": [1, 2]}
    assert found.defaults == {"new": pa.scalar(5)}


def test_a_table_with_the_old_name_is_not_given_a_second_column() -> None:
    settings = replace(SETTINGS, schema=SchemaSettings(renames={"n": "number"}))
    with pytest.raises(ConnectError, match=r"has the column n and lacks number.*set column\.renames=number:n") as refused:
        RowPreparation("t", settings).prepare(TABLE, [changes(pa.table({"id": [1], "n": [1]}))], ("id",))
    assert not isinstance(refused.value, DataError)
