"""Errors of values that cannot be converted."""

from __future__ import annotations

import pytest

from connect.data.struct import Struct
from connect.errors import DataError
from connect.record import ErrantSourceRecord
from connectors.cdc.schema.filters import Filters
from connectors.cdc.snapshot.offsets import OffsetStep
from connectors.postgres.config import parse_config
from connectors.postgres.schema import source_block as block
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import NullInRequiredError, TableRows, snapshot_decoder
from connectors.postgres.schema.value_errors import name_value
from connectors.postgres.snapshot.events import SnapshotPoint, TableEvents
from connectors.postgres.snapshot.text_batches import Traits
from connectors.postgres.types.catalog_type import CatalogType

SETTINGS = parse_config({"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"})
INT, TEXT, NUMERIC = 23, 25, 1700
TYPES = {
    oid: CatalogType(oid, "pg_catalog", name, "b", 0, 0, -1)
    for oid, name in ((INT, "int4"), (TEXT, "text"), (NUMERIC, "numeric"))
}
COLUMNS = (
    CapturedColumn("id", INT, -1, True, None),
    CapturedColumn("name", TEXT, -1, True, None),
    CapturedColumn("n", NUMERIC, -1, False, None),
)
ROWS = TableRows(CapturedTable(1, "public", "t", COLUMNS, ("id",), "d", "r", -1), TYPES, SETTINGS, Filters(SETTINGS.capture))


def test_the_error_names_table_column_and_key() -> None:
    error = name_value(ROWS, ["7", "a", "NaN"], ValueError())
    assert str(error).startswith("a row of table public.t with the key (id=7) cannot be converted: column n: NaN is no decimal")


def test_bad_rows_of_a_snapshot_do_not_keep_the_others() -> None:
    lines = ["1\ta\\tb\t1", "2\t\\N\tInfinity", "3\tc\tNaN"]
    events = TableEvents(ROWS, SnapshotPoint(1, None), SETTINGS, "1", lambda rows, column: rows)
    lines[1] = lines[1].replace("\\N", "b")
    batch = events.batch(lines, Traits.of("\n".join(lines).encode()), OffsetStep({"lsn": 1}, {"lsn": 2}))
    good, *errant = batch
    assert good.value["after"]["id"] == 1
    assert [type(record) for record in errant] == [ErrantSourceRecord] * 2
    with pytest.raises(DataError, match=r"\(id=2\) cannot be converted: column n: Infinity"):
        assert errant[0].value
    assert [record.source_offset for record in batch] == [{"lsn": 1}, {"lsn": 1}, {"lsn": 2}]


def test_other_reasons_are_kept() -> None:
    assert "(id=unavailable) cannot be converted: odd" in str(name_value(ROWS, [object(), None, "1"], DataError("odd")))


def test_a_null_in_a_required_column_of_a_copied_line_is_named() -> None:
    decode = snapshot_decoder(ROWS)
    with pytest.raises(NullInRequiredError) as raised:
        decode(["1\t\\N\t1"], Struct(block.SOURCE, []), {}, {}, 1, 2, 3)
    assert raised.value.column == "name"
