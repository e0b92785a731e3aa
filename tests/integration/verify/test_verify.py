"""``sluice verify`` finds all planted differences, and none where there are none, while the database changes."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.verify.pipeline import Pipeline, run_pipeline, source_config

PLANTED = int(os.environ.get("SLUICE_VERIFY_PLANTED", "68"))
ROWS = 3 * PLANTED

# Each changes rows of one kind of value; %s is the key.
_CHANGES = (
    "DELETE FROM items WHERE id = %s",
    "UPDATE items SET name = name || ' ' WHERE id = %s",
    "UPDATE items SET note = CASE WHEN note IS NULL THEN '' ELSE NULL END WHERE id = %s",
    "UPDATE items SET price = trunc(price) - 1 WHERE id = %s",
    "UPDATE items SET any_number = round(any_number, 2) + 0.001 WHERE id = %s",
    "UPDATE items SET ratio = ratio + 1e-9 WHERE id = %s",
    "UPDATE items SET part = part + 0.01 WHERE id = %s",
    "UPDATE items SET made = date_trunc('second', made) - interval '1 us' WHERE id = %s",
    "UPDATE items SET seen = seen + interval '1 us' WHERE id = %s",
    "UPDATE items SET day = day - 1 WHERE id = %s",
    "UPDATE items SET at = NULL WHERE id = %s",
    "UPDATE items SET data = ''::bytea WHERE id = %s",
    "UPDATE items SET doc = doc::jsonb || '{\"n\": null}' WHERE id = %s",
    "UPDATE items SET code = gen_random_uuid() WHERE id = %s",
    "UPDATE items SET list = list[1:2] WHERE id = %s",
    "UPDATE items SET ok = NOT ok WHERE id = %s",
    "UPDATE items SET id = -id WHERE id = %s",
)

Verify = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def verify(capsys: pytest.CaptureFixture[str]) -> Verify:
    def call(pipeline: Pipeline, *words: str) -> tuple[int, dict[str, Any]]:
        code = run(build(COMMANDS), ["verify", *words, *pipeline.words, "-o", "json"])
        shown = capsys.readouterr()
        lines = shown.out.splitlines()
        assert lines, shown.err
        return code, json.loads(lines[-1])

    return call


@pytest.mark.timeout(300)
def test_finds_each_planted_difference_under_writes_and_mends_them(
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
    verify: Verify,
) -> None:
    copy = unique_name("copy")
    prefix = unique_name("verify")
    postgres.create_database(copy)
    sink = {
        "connector.class": "io.debezium.connector.jdbc.JdbcSinkConnector",
        "topics": f"{prefix}.public.items",
        "connection.url": f"jdbc:postgresql://{postgres.host}:{postgres.port}/{copy}",
        "connection.username": postgres.user,
        **({"connection.password": postgres.password} if postgres.password else {}),
        "insert.mode": "upsert",
        "primary.key.mode": "record_key",
        "delete.enabled": "true",
        "schema.evolution": "basic",
        "collection.name.format": "items",
    }
    try:
        with run_pipeline(broker, postgres.dsn(database), tmp_path, ROWS) as pipeline:
            pipeline.put("sink", sink)
            pipeline.start(source_config(postgres, database, prefix))
            with pipeline.writes(2 * PLANTED):
                code, found = verify(pipeline, "sink", "--source", "source")
                assert (code, found["equal"], found["differences"], found["unsettled"]) == (0, True, 0, 0), found
                expected = _plant(postgres.dsn(copy))
                code, found = verify(pipeline, "sink", "--max-differences", "5000", "--no-values")
                assert code == 1
                table = found["tables"][0]
                keys = sorted(int(one["key"]["id"]) for one in table["examples"])
                assert keys == expected
                assert table["unsettled"] == 0
                stored = pipeline.worker.client.verification("sink")
                assert (stored["equal"], stored["differences"]) == (False, len(expected))
                code, found = verify(pipeline, "source", "--repair", "--max-differences", "5000")
                assert (code, found["differences"], found["unsettled"]) == (0, 0, 0), found
    finally:
        postgres.drop_database(copy)


def _plant(copy: str) -> list[int]:
    """Plants differences in rows that the writer does not change; returns their keys."""
    keys: list[int] = []
    with psycopg.connect(copy, autocommit=True) as connection:
        for key in range(1, PLANTED + 1):
            change = _CHANGES[key % len(_CHANGES)]
            connection.execute(change.encode(), (key,))
            keys.append(key)
            if "-id" in change:
                keys.append(-key)
    return sorted(keys)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
def test_compares_lake_tables_under_writes(
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
    verify: Verify,
    table_format: str,
) -> None:
    prefix = unique_name("verify")
    lake = tmp_path / "lake"
    sink = {
        "connector.class": "SparkSink",
        "topics": f"{prefix}.public.items",
        "table.format": table_format,
        "table.location": str(lake),
        "table.name.format": "${table}",
        "write.mode": "upsert",
        "freshness.ms": "200",
    }
    with run_pipeline(broker, postgres.dsn(database), tmp_path, 300) as pipeline:
        pipeline.put("sink", sink)
        pipeline.start(source_config(postgres, database, prefix))
        with pipeline.writes(100, interval_s=0.05):
            code, found = verify(pipeline, "sink", "--source", "source")
            assert (code, found["differences"], found["unsettled"]) == (0, 0, 0), found
            if table_format == "iceberg":
                return
            DeltaTable(lake / "items").delete("id IN (3, 4, 5)")
            code, found = verify(pipeline, "sink", "--source", "source")
        assert (code, found["differences"], found["unsettled"]) == (1, 3, 0), found
        table = found["tables"][0]
        assert sorted((one["kind"], one["key"]["id"]) for one in table["examples"]) == [("missing", key) for key in "345"]
