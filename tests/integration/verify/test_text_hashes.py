"""The fast way to hash rows of PostgreSQL gives the same verdicts as their records, for each type and way of comparing it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
import pytest

from connect.connector import SinkConnector, SourceConnector
from connect.plugins import Plugins
from connect.record import SinkRecord
from connect.text_records import TextRecords
from connect.verification import ColumnType, SourceRows, VerifiableSink, VerifiableSource
from sluice.embedded.postgres import EmbeddedPostgres
from sluice.verify.canonical import column_forms
from sluice.verify.record_path import RecordPath
from sluice.verify.row_hashes import hash_forms
from sluice.verify.text_plan import SlowRowsError, TextPlan, plan_texts
from tests.integration.postgres.test_types import COLUMNS, create, insert
from tests.integration.verify.pipeline import TABLE, source_config
from tests.support.cases import first_fast

_JSON = "org.apache.kafka.connect.json.JsonConverter"
_WORKER = {"key.converter": _JSON, "value.converter": _JSON}
_LAKE = {
    "topics.regex": "types\\.public\\..*",
    "table.location": "/none",
    "table.name.format": "${topic}",
    "write.mode": "upsert",
}
_UNWRAP = {"transforms": "unwrap", "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState"}
_MODES: list[Mapping[str, str]] = [
    {},
    {
        "decimal.handling.mode": "double",
        "time.precision.mode": "connect",
        "binary.handling.mode": "base64",
        "event.converting.failure.handling.mode": "skip",  # an infinite date has no value then
    },
    {"decimal.handling.mode": "string", "time.precision.mode": "isostring", "binary.handling.mode": "hex", **_UNWRAP},
    {
        "column.mask.with.3.chars": "public.t.a_text",
        "column.truncate.to.2.chars": "public.t.a_varchar",
        "column.mask.hash.SHA-256.with.salt.x": "public.t.a_name",
        "interval.handling.mode": "string",
    },
]


class _Rows:
    """The rows of a table, as the source connector with a configuration gives them to a sink."""

    def __init__(self, config: Mapping[str, str], table: str) -> None:
        plugins = Plugins.discover()
        connector, sink_connector = plugins.new_connector("PostgresSource"), plugins.new_connector("SparkSink")
        assert isinstance(connector, SourceConnector)
        assert isinstance(sink_connector, SinkConnector)
        source, sink = connector.verification(config), sink_connector.verification(_LAKE)
        assert source is not None
        assert sink is not None
        self.source: VerifiableSource = source
        self.sink: VerifiableSink = sink
        self.path = RecordPath(config, _LAKE, _WORKER, plugins)
        snapshot = source.snapshot()
        self.blocks: list[SourceRows] = list(snapshot.rows(table))
        snapshot.close()

    def close(self) -> None:
        self.path.close()
        self.source.close()

    def compare(self) -> int:
        """Checks the hashes of all columns; returns the number of comparable columns and types."""
        compared = 0
        for rows in self.blocks:
            assert isinstance(rows.records, TextRecords)
            records = [record for record in self.path.run(list(rows.records)) if isinstance(record, SinkRecord)]
            assert len(records) == len(rows.records)
            (expected,) = self.sink.expect(records)
            names = (*expected.key, *(name for name in expected.columns if name not in expected.key))
            plan = plan_texts(rows.records, self.path, self.sink, expected.table, names, len(expected.key))
            assert isinstance(plan, TextPlan)
            for target in ColumnType:
                compared += self._compare_as(plan, rows.records, expected.columns, target)
        return compared

    def _compare_as(self, plan: TextPlan, records: TextRecords, columns: Mapping[str, Any], target: ColumnType) -> int:
        compared = 0
        for negative_zero in (True, False):

            def forms_of(name: str, schema: Any, negative_zero: bool = negative_zero) -> Any:
                return column_forms(schema, target, negative_zero=negative_zero)

            fast = plan.hashes(records, forms_of, None)
            for name, hashes in zip(plan.names, fast, strict=True):
                schema, values = columns[name]
                forms = forms_of(name, schema)
                if forms.is_comparable:
                    compared += 1
                    assert hashes.tolist() == hash_forms(forms.of_expected(values)).tolist(), (name, target, values)
        return compared


@pytest.mark.parametrize("modes", first_fast(_MODES), ids=["default", "double", "text", "masked"])
def test_hashes_of_texts_are_those_of_records(postgres: EmbeddedPostgres, database: str, modes: Mapping[str, str]) -> None:
    with psycopg.connect(postgres.dsn(database), autocommit=True) as db:
        create(db)
        insert(db, 1)
        db.execute("INSERT INTO t (id) VALUES (-2147483648)")
        db.execute(TABLE.format(rows=60))
        db.execute("INSERT INTO items (id, ratio, part, price) VALUES (101, 'NaN', '-0', 0), (102, '-0', 'Infinity', 1e8)")
        db.execute(r"INSERT INTO items (id, name, price) VALUES (1003, E'tab\t\\N\r\n', -0.5), (1004, '\N', 100), (1005, '', 0)")
    config = {**source_config(postgres, database, "types"), "table.include.list": r"public\.(t|items)", **modes}
    for table in ("public.t", "public.items"):
        rows = _Rows(config, table)
        try:
            assert rows.compare() > (len(COLUMNS) if table == "public.t" else 16)
        finally:
            rows.close()


def test_rows_that_cannot_be_converted_have_no_fast_way(postgres: EmbeddedPostgres, database: str) -> None:
    with psycopg.connect(postgres.dsn(database), autocommit=True) as db:
        db.execute(
            "CREATE TABLE items (id int PRIMARY KEY, day date); INSERT INTO items VALUES (1, '2024-01-01'), (2, 'infinity')"
        )
    rows = _Rows({**source_config(postgres, database, "types"), "time.precision.mode": "connect"}, "public.items")
    try:
        (block,) = rows.blocks
        assert isinstance(block.records, TextRecords)
        plan = plan_texts(block.records, rows.path, rows.sink, "types.public.items", ("id", "day"), 1)
        assert plan is not None
        with pytest.raises(SlowRowsError):
            plan.hashes(block.records, lambda name, schema: column_forms(schema, ColumnType.ANY), None)
        assert len(plan.hashes(block.records, lambda name, schema: column_forms(schema, ColumnType.ANY), 1)) == 1
    finally:
        rows.close()


def test_transformations_that_look_at_values_have_no_fast_way(postgres: EmbeddedPostgres, database: str) -> None:
    with psycopg.connect(postgres.dsn(database), autocommit=True) as db:
        db.execute("CREATE TABLE items (id int PRIMARY KEY, name text); INSERT INTO items VALUES (1, 'a')")
    mask = {**_UNWRAP, "transforms": "unwrap,mask", "transforms.mask.type": "org.apache.kafka.connect.transforms.MaskField$Value"}
    rows = _Rows({**source_config(postgres, database, "types"), **mask, "transforms.mask.fields": "name"}, "public.items")
    try:
        (block,) = rows.blocks
        assert isinstance(block.records, TextRecords)
        assert plan_texts(block.records, rows.path, rows.sink, "items", ("id", "name"), 1) is None
    finally:
        rows.close()
