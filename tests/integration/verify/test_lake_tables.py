"""``sluice verify`` of every layout of lake tables finds what another writer has changed, and nothing where nothing differs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from connectors.spark import session
from connectors.spark.config import parse_config
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.jars import ensure_jars, folder_of, jar_set
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.spark.table_access import CATALOG, catalog_props
from tests.integration.verify.pipeline import Pipeline, run_pipeline, source_config
from tests.support.small_spark import CODE_CACHE, INTERPRETED, delta_sink

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

ROWS = 60
PLANTED = [
    ("changed", "3", {"note": {"expected": "none", "actual": "planted"}}),
    ("extra", "-7", {}),
    ("missing", "5", {}),
]
_CATALOG_SINK = {
    "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
    "iceberg.tables": "db.items",
    "iceberg.catalog.type": "hadoop",
    "iceberg.tables.auto-create-enabled": "true",
    "iceberg.control.commit.interval-ms": "200",
    "iceberg.tables.upsert-mode-enabled": "true",
    "iceberg.tables.default-id-columns": "id",
    "transforms": "unwrap",
    "transforms.unwrap.type": "io.debezium.transforms.ExtractNewRecordState",
}


@dataclass(frozen=True)
class Layout:
    """A sink. ``only`` is a condition of the rows that count."""

    config: dict[str, str]
    only: str = "true"
    branch: str | None = None


def iceberg(**config: str) -> dict[str, str]:
    return {"table.format": "iceberg", "write.mode": "upsert", **{key.replace("_", "."): value for key, value in config.items()}}


LAYOUTS = {
    "delta": Layout({"write.mode": "upsert"}),
    "delta_soft": Layout({"write.mode": "upsert", "delete.mode": "soft"}),
    "delta_events": Layout({"write.mode": "append"}),
    "delta_versions": Layout({"write.mode": "scd2"}, only="__current"),
    "parquet_events": Layout({"table.format": "parquet", "write.mode": "append"}),
    "iceberg_1": Layout({**iceberg(), "table.properties.format-version": "1"}),
    "iceberg_2": Layout({**iceberg(), "table.properties.format-version": "2"}),
    "iceberg_events": Layout(iceberg(write_mode="append")),
    "iceberg_versions": Layout(iceberg(write_mode="scd2"), only="__current"),
    "iceberg_branch": Layout(iceberg(table_branch="audit"), branch="audit"),
    "catalog_sink": Layout(_CATALOG_SINK),
}
REFUSED = {
    "no_places": (
        {"write.mode": "append", "metadata.columns": "__op"},
        "table items keeps every event, and its newest event per key can be found only with the columns __op, __partition, and",
    ),
    "variant": (iceberg(json_columns="variant"), "cannot read the Iceberg table items: its column doc is VARIANT"),
}


@dataclass
class Lake:
    """A pipeline with a sink for each layout, and a Spark of our own."""

    pipeline: Pipeline
    home: Path
    spark: Any
    capsys: Any = field(default=None)

    def location(self, name: str) -> Path:
        return self.home / name

    def verify(self, name: str) -> tuple[int, dict[str, Any]]:
        code = run(build(COMMANDS), ["verify", name, "--source", "source", *self.pipeline.words, "-o", "json"])
        shown = self.capsys.readouterr()
        assert shown.out, shown.err
        return code, json.loads(shown.out.splitlines()[-1])

    def plant(self, name: str, layout: Layout) -> None:
        """Changes a row, deletes one, and adds one."""
        if layout.config.get("table.format") == "parquet":
            self._plant_in_files(self.location(name) / "items")
            return
        table = f"delta.`{self.location(name) / 'items'}`"
        if layout.config.get("table.format") == "iceberg" or layout.config is _CATALOG_SINK:
            # Spark keeps catalogs that it has used, so each has a name of its own.
            for key, value in catalog_props(self.location(name)).items():
                self.spark.conf.set(key.replace(f".{CATALOG}", f".{name}"), value)
            table = f"{name}.db.items" if layout.config is _CATALOG_SINK else f"{name}.items"
            table += "" if layout.branch is None else f".branch_{layout.branch}"
        columns = self.spark.table(table).columns
        copied = ", ".join("CAST(-7 AS BIGINT) AS id" if column == "id" else f"`{column}`" for column in columns)
        self.spark.sql(f"UPDATE {table} SET note = 'planted' WHERE id = 3 AND {layout.only}")
        self.spark.sql(f"DELETE FROM {table} WHERE id = 5 AND {layout.only}")
        self.spark.sql(f"INSERT INTO {table} SELECT {copied} FROM {table} WHERE id = 9 AND {layout.only}")

    @staticmethod
    def _plant_in_files(folder: Path) -> None:
        for path in folder.rglob("*.parquet"):
            rows = pq.read_table(path, partitioning=None)
            changed = pc.if_else(pc.equal(rows["id"], 3), pa.scalar("planted"), rows["note"])
            rows = rows.set_column(rows.schema.get_field_index("note"), rows.schema.field("note"), changed)
            added = rows.filter(pc.equal(rows["id"], 9))
            added = added.set_column(
                rows.schema.get_field_index("id"), rows.schema.field("id"), pa.array([-7] * added.num_rows, pa.int64())
            )
            pq.write_table(pa.concat_tables([rows.filter(pc.not_equal(rows["id"], 5)), added]), path)


@pytest.fixture(scope="module")
def running(_broker: EmbeddedBroker, _postgres: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    for name in ("spark", "spark-iceberg"):
        ensure_jars(name)
    home, name = tmp_path_factory.mktemp("lakes"), "verify_lakes"
    _broker.start()
    _postgres.start()
    _postgres.create_database(name)
    try:
        with run_pipeline(_broker, _postgres.dsn(name), home, ROWS) as pipeline:
            own = {f"l_{key}": layout.config for key, layout in LAYOUTS.items()} | {
                f"r_{key}": config for key, (config, _) in REFUSED.items()
            }
            for sink, config in own.items():
                pipeline.put(sink, sink_config(home / sink, config))
            pipeline.start(source_config(_postgres, name, name))
            jars = {"spark.master": "local[2]", "spark.jars": str(folder_of(jar_set("spark"))), **CODE_CACHE}
            lease = session.lease(parse_config({**sink_config(home / "own", iceberg()), **jars}).spark)
            try:
                yield Lake(pipeline, home, lease.session())
            finally:
                lease.release()
    finally:
        _postgres.drop_database(name)


def sink_config(location: Path, config: dict[str, str]) -> dict[str, str]:
    topics = "verify_lakes.public.items"
    if config is _CATALOG_SINK:
        return {"topics": topics, **config, "iceberg.catalog.warehouse": str(location)}
    return delta_sink(location, topics, **INTERPRETED, **config)


@pytest.fixture
def lake(running: Lake, capsys: pytest.CaptureFixture[str]) -> Lake:
    running.capsys = capsys
    return running


@pytest.mark.parametrize("name", LAYOUTS)
def test_what_another_writer_has_changed_is_found_in_each_layout(lake: Lake, name: str) -> None:
    sink = f"l_{name}"
    code, found = lake.verify(sink)
    assert (code, found["differences"], found["unsettled"]) == (0, 0, 0), found
    (table,) = found["tables"]
    assert (table["rows"], table["problem"]) == (ROWS, None)
    lake.plant(sink, LAYOUTS[name])
    code, found = lake.verify(sink)
    assert (code, found["unsettled"]) == (1, 0), found
    (table,) = found["tables"]
    # Of events, the row that is a copy of another one has its offset, too.
    duplicates = [one for one in table["examples"] if one["kind"] == "duplicate"]
    assert [sorted(one["key"]) for one in duplicates] == [["__offset", "__partition", "__topic"]] * name.endswith("_events")
    planted = sorted((one["kind"], one["key"]["id"], one["columns"]) for one in table["examples"] if one not in duplicates)
    assert planted == PLANTED


@pytest.mark.parametrize("name", REFUSED)
def test_a_table_that_cannot_be_compared_is_refused_by_name(lake: Lake, name: str, caplog: Any) -> None:
    code = run(build(COMMANDS), ["verify", f"r_{name}", "--source", "source", *lake.pipeline.words])
    shown = lake.capsys.readouterr()
    assert code == 2, shown
    assert REFUSED[name][1] in " ".join(shown.err.split())
