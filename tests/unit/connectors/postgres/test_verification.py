"""What the records of the source tell ``sluice verify``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from connect.data.schema import SchemaBuilder
from connect.data.struct import Struct
from connectors.postgres.schema import source_block as block
from connectors.postgres.verification import PostgresVerification

CONFIG = {
    "topic.prefix": "shop", "database.hostname": "localhost", "database.port": "5432", "database.user": "u",
    "database.password": "p", "database.dbname": "orders",
}  # fmt: skip
SOURCE = {"name": "shop", "db": "orders", "lsn": 500, "snapshot": "false"}


@pytest.fixture
def source() -> Iterator[PostgresVerification]:
    verification = PostgresVerification(CONFIG)
    yield verification
    verification.close()


def event(op: str = "u", **source: Any) -> dict[str, Any]:
    return {"op": op, "source": {**SOURCE, **source}, "after": {"id": 1}}


def test_streamed_change_tells_its_position(source: PostgresVerification) -> None:
    assert source.position_of_value(event()) == 500
    assert source.position_of_value(event("d", snapshot=None)) == 500


def test_streamed_change_with_a_schema_tells_its_position(source: PostgresVerification) -> None:
    values = block.source_values("1", "shop", "orders", "public", "items")
    values[block.LSN] = 700
    schema = SchemaBuilder.struct().field("op", SchemaBuilder.string().build()).field("source", block.SOURCE).build()
    assert source.position_of_value(Struct(schema, ["u", Struct(block.SOURCE, values)])) == 700
    assert source.position_of_value(Struct(block.SOURCE, values)) is None


@pytest.mark.parametrize(
    "value",
    [event("r"), event("r", snapshot="incremental"), event(snapshot="last"), event(lsn=None), {"id": 1}, None, "text"],
)
def test_rows_of_snapshots_and_flattened_rows_tell_none(source: PostgresVerification, value: Any) -> None:
    assert source.position_of_value(value) is None


def test_record_of_another_database_in_the_same_topic_tells_none(source: PostgresVerification) -> None:
    assert source.position_of_value(event(name="other")) is None
    assert source.position_of_value(event(db="other")) is None
