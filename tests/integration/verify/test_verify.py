"""``sluice verify`` finds all planted differences, and none where there are none, while the database changes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError

from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.integration.verify.pipeline import Pipeline, jdbc_sink_config, run_pipeline, source_config
from tests.support import randomness
from tests.support.small_spark import INTERPRETED, delta_sink
from tests.support.waiting import Deadline

FEW_ROWS, ROWS = 300, randomness.size("SLUICE_ROWS", 3000)

# By column: a change of one kind of value.
_CHANGES = {
    "name": "name = name || ' '",
    "note": "note = CASE WHEN note IS NULL THEN '' ELSE NULL END",
    "price": "price = trunc(price) - 1",
    "any_number": "any_number = round(any_number, 2) + 0.001",
    "ratio": "ratio = ratio + 1e-9",
    "part": "part = part + 0.01",
    "made": "made = date_trunc('second', made) - interval '1 us'",
    "seen": "seen = seen + interval '1 us'",
    "day": "day = day - 1",
    "at": "at = NULL",
    "data": "data = ''::bytea",
    "doc": "doc = doc::jsonb || '{\"n\": null}'",
    "code": "code = gen_random_uuid()",
    "list": "list = list[1:2]",
    "ok": "ok = NOT ok",
}
_MISSING, _EXTRA, _CHANGED = "missing", "extra", "changed"
Found = dict[int, tuple[str, list[str]]]
"""By key: the kind of a difference, and the columns that differ."""

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


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rows", [FEW_ROWS, pytest.param(ROWS, marks=pytest.mark.long)])
def test_finds_each_planted_difference_under_writes_and_mends_them(
    broker: EmbeddedBroker,
    postgres: EmbeddedPostgres,
    database: str,
    tmp_path: Path,
    unique_name: Callable[[str], str],
    verify: Verify,
    rows: int,
) -> None:
    planted = rows // 3
    copy = unique_name("copy")
    prefix = unique_name("verify")
    postgres.create_database(copy)
    sink = jdbc_sink_config(postgres, copy, prefix)
    try:
        with run_pipeline(broker, postgres.dsn(database), tmp_path, rows) as pipeline:
            pipeline.put("sink", sink)
            pipeline.start(source_config(postgres, database, prefix))
            with pipeline.writes(2 * planted):
                code, found = verify(pipeline, "sink", "--source", "source")
                assert (code, found["equal"], found["differences"], found["unsettled"]) == (0, True, 0, 0), found
                expected = _plant(postgres.dsn(copy), planted)
                code, found = verify(pipeline, "sink", "--max-differences", "5000", "--no-values")
                assert code == 1
                table = found["tables"][0]
                assert {int(one["key"]["id"]): (one["kind"], one["columns"]) for one in table["examples"]} == expected
                assert (len(table["examples"]), table["unsettled"]) == (planted, 0)
                stored = pipeline.worker.client.verification("sink")
                assert (stored["equal"], stored["differences"]) == (False, planted)
                code, found = verify(pipeline, "source", "--repair", "--max-differences", "5000")
                assert (code, found["differences"], found["unsettled"]) == (0, 0, 0), found
    finally:
        postgres.drop_database(copy)


def _plant(copy: str, count: int) -> Found:
    """Plants differences of each kind in every other row that the writer does not change, the first one too."""
    kinds = [*_CHANGES, _MISSING, _EXTRA]
    keys: dict[str, list[int]] = {kind: [] for kind in kinds}
    found: Found = {}
    for number in range(count):
        key, kind = 2 * number + 1, kinds[number % len(kinds)]
        keys[kind].append(-key if kind == _EXTRA else key)
        found[keys[kind][-1]] = (kind, []) if kind in (_MISSING, _EXTRA) else (_CHANGED, [kind])
    with psycopg.connect(copy, autocommit=True) as connection:
        for column, change in _CHANGES.items():
            connection.execute(f"UPDATE items SET {change} WHERE id = ANY(%s)".encode(), (keys[column],))
        connection.execute("DELETE FROM items WHERE id = ANY(%s)", (keys[_MISSING],))
        connection.execute("INSERT INTO items (id, name) SELECT unnest(%s::bigint[]), 'extra'", (keys[_EXTRA],))
    return found


@pytest.mark.timeout(300)
@pytest.mark.parametrize("table_format", ["delta", pytest.param("iceberg", marks=pytest.mark.long)])
@pytest.mark.long
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
    sink = delta_sink(lake, f"{prefix}.public.items", **{"table.format": table_format, **INTERPRETED})
    with run_pipeline(broker, postgres.dsn(database), tmp_path, 300) as pipeline:
        pipeline.put("sink", sink)
        pipeline.start(source_config(postgres, database, prefix))
        with pipeline.writes(100):
            code, found = verify(pipeline, "sink", "--source", "source")
            assert (code, found["differences"], found["unsettled"]) == (0, 0, 0), found
            if table_format == "iceberg":
                return
            _delete_rows(lake / "items", "id IN (3, 4, 5)")
            code, found = verify(pipeline, "sink", "--source", "source")
        assert (code, found["differences"], found["unsettled"]) == (1, 3, 0), found
        table = found["tables"][0]
        assert sorted((one["kind"], one["key"]["id"]) for one in table["examples"]) == [("missing", key) for key in "345"]


def _delete_rows(table: Path, condition: str) -> None:
    """Deletes rows as another writer. Like any writer, it starts over if the sink has committed meanwhile."""
    deadline = Deadline("the sink to commit nothing")
    while True:
        try:
            DeltaTable(table).delete(condition)
        except CommitFailedError:
            deadline.check()
        else:
            return
