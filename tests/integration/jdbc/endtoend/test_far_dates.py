"""Dates and timestamps beyond Python's range are preserved from one PostgreSQL table to another."""

from __future__ import annotations

import pytest

from connect.converters.json.converter import JsonConverter
from connect.data.logical import FarInstant
from connect.record import SinkRecord, SourceRecord
from connect.testing.harness import MemoryOffsets
from connectors.jdbc import JdbcSource
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.jdbc.source.conftest import Source
from tests.unit.connectors.jdbc.sink_rig import Sink

ROWS = """
    (1, DATE '0001-01-01', TIMESTAMP '0001-01-01 00:00:00'),
    (2, DATE '0044-03-15 BC', TIMESTAMP '0044-03-15 12:30:15.123 BC'),
    (3, DATE '10000-01-01', TIMESTAMP '294246-12-31 23:59:59.999'),
    (4, DATE '1582-10-15', TIMESTAMP '1582-10-04 00:00:00'),
    (5, DATE '2024-02-29', TIMESTAMP '9999-12-31 23:59:59.999'),
    (6, NULL, TIMESTAMP 'infinity'),
    (7, NULL, TIMESTAMP '-infinity')
"""


@pytest.mark.parametrize("calendar", [{}, {"date.calendar.system": "PROLEPTIC_GREGORIAN"}])
def test_dates_beyond_pythons_range_are_preserved_through_a_topic(
    postgres: EmbeddedPostgres, database: str, calendar: dict[str, str]
) -> None:
    keys = {
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{database}",
        "connection.user": postgres.user,
        "connection.password": postgres.password,
        **calendar,
    }
    with postgres.connect(database) as shop:
        shop.execute("CREATE TABLE moments(id int PRIMARY KEY, day date, at timestamp(3))")
        shop.execute(f"INSERT INTO moments VALUES {ROWS}".encode())
        sent = through_json(records_of(keys))
        days = [record.value.get("day") for record in sent]
        if not calendar:
            assert days[0] == FarInstant(-719_164 * 86_400_000)
        assert isinstance(days[2], FarInstant)
        with Sink({**keys, "topics": "moments", "table.name.format": "copy", "auto.create": "true"}) as sink:
            sink.put(*sent)
        assert shop.execute("SELECT count(*) FROM copy").fetchone() == (7,)
        assert (
            shop.execute("SELECT id, day::text, at::text FROM moments EXCEPT SELECT id, day::text, at::text FROM copy").fetchall()
            == []
        )


def records_of(keys: dict[str, str]) -> list[SourceRecord]:
    """What one reading of the table gives."""
    config = {"name": "far", "mode": "bulk", "table.whitelist": "moments", "topic.prefix": "", **keys}
    source = Source(config, MemoryOffsets(), 1, JdbcSource)
    try:
        return source.read(7)
    finally:
        source.stop()


def through_json(records: list[SourceRecord]) -> list[SinkRecord]:
    """The records after JsonConverter wrote and read them."""
    converter = JsonConverter()
    converter.configure({"schemas.enable": "true"}, False)
    datas = converter.encode_batch("moments", records[0].value_schema, [record.value for record in records])
    read = converter.decode_batch("moments", datas)
    assert [found.value.values for found in read] == [record.value.values for record in records]
    return [SinkRecord("moments", 0, None, None, found.schema, found.value, at) for at, found in enumerate(read)]
