"""Positions of changes that the sink computes from this source's envelopes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from connect.converters.json.converter import JsonConverter
from connect.record import SinkRecord, SourceRecord
from connectors.spark.decode.raw_buffer import RawBuffer
from connectors.spark.decode.topic_decoder import TopicDecoder
from tests.support.cases import first_fast


def positions(records: Sequence[SourceRecord], *, schemas: bool) -> list[list[str]]:
    """The positions of the records, from their JSON and from themselves."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": str(schemas).lower()}, is_key=False)
    decoder = TopicDecoder(
        "t", converter, converter, key_schemas=schemas, value_schemas=schemas, fill_defaults=False, key_name=None,
        needs_names=False, needs_keys=False, needs_position=True,
    )  # fmt: skip
    count = len(records)
    lines = [converter.from_connect_data("t", r.value_schema, r.value) for r in records]
    raw = RawBuffer("t", [0] * count, list(range(count)), [None] * count, lines)
    decoded = [SinkRecord("t", 0, None, None, r.value_schema, r.value, at) for at, r in enumerate(records)]
    return [
        [position for batch in batches for position in batch.meta["position"].to_pylist()]
        for batches in (decoder.decode_batch(raw, 0), decoder.decode_records(decoded))
    ]


@pytest.mark.parametrize("schemas", first_fast([False, True]))
def test_positions_sort_like_commits_even_if_transactions_overlap(source: Any, schemas: bool) -> None:
    with source.sql() as db, source.sql() as other:
        db.execute("create table t(id int primary key, name text)")
        db.execute("insert into t values (0, 'snapshot')")
        source.start(snapshot_mode="initial")
        records = source.until("streaming")
        db.execute("begin")
        db.execute("insert into t values (1, 'first change, last commit')")
        other.execute("insert into t values (2, 'last change, first commit')")
        other.execute("begin; update t set name = 'a' where id = 2; update t set name = 'b' where id = 2; commit")
        db.execute("update t set name = 'c' where id = 1")
        db.execute("commit")
        db.execute("update t set name = 'd'")
    records += source.read(8 - len(records))
    assert [r.value["after"]["id"] for r in records][:6] == [0, 2, 2, 2, 1, 1]
    for found in positions(records, schemas=schemas):
        assert len(found) == 9
        assert found == sorted(set(found))
