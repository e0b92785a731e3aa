"""Spark SQL transforms the records of executors: the tables are those of the transformations, row by row and in the worker."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.executors import data_source, engine, ranges, sql_chain
from connectors.spark.executors.job import RangeJob
from tests.integration.spark.chain_runs import ChainRun, Failed
from tests.integration.spark.change_events import ROW, message
from tests.integration.spark.histories import make_history, sorted_rows
from tests.support import randomness
from tests.support.range_readers import GAP
from tests.support.small_spark import GENERATED

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
BAD = b'{"schema":'
_APACHE = "org.apache.kafka.connect.transforms."
_UNWRAP = {"type": "io.debezium.transforms.ExtractNewRecordState", "add.fields": "op,source.ts_ms", "add.headers": ""}
_VALUE_STEPS: Sequence[dict[str, str]] = [
    {"type": f"{_APACHE}ReplaceField$Value", "exclude": "photo", "renames": "name:label"},
    {"type": f"{_APACHE}InsertField$Value", "static.field": "origin", "static.value": "it's"},
    {"type": f"{_APACHE}InsertField$Value", "topic.field": "topic", "offset.field": "at", "timestamp.field": "received"},
    {"type": f"{_APACHE}Cast$Value", "spec": "level:string"},
    {"type": f"{_APACHE}Cast$Value", "spec": "id:int8"},
    {"type": f"{_APACHE}MaskField$Value", "fields": "ratio"},
    {"type": f"{_APACHE}SetSchemaMetadata$Value", "schema.name": "shop.Row"},
]
_ROUTERS: Sequence[dict[str, str]] = [
    {"type": f"{_APACHE}RegexRouter", "regex": "(.*)", "replacement": "$1_routed"},
    {"type": f"{_APACHE}TimestampRouter", "topic.format": "${topic}_${timestamp}", "timestamp.format": "yyyyMMdd"},
]
_FILTER = {"type": f"{_APACHE}Filter", "predicate": "noted"}
_PREDICATES = {
    "predicates": "noted",
    "predicates.noted.type": f"{_APACHE}predicates.HasHeaderKey",
    "predicates.noted.name": "note",
}


ROW_SCHEMA = json.dumps({"type": "struct", "optional": False, "fields": ROW[:1]}, separators=(",", ":")).encode()


@dataclass(frozen=True)
class Case:
    """A history, and the transformations of its records."""

    number: int
    mode: str
    steps: Sequence[Mapping[str, str]]
    settings: Mapping[str, str] = field(default_factory=dict)

    def config(self) -> dict[str, str]:
        found = {**_PREDICATES, "transforms": ",".join(f"t{i}" for i in range(len(self.steps)))}
        return found | {f"transforms.t{i}.{name}": text for i, step in enumerate(self.steps) for name, text in step.items()}


def _cases(number: int) -> list[Case]:
    chance = randomness.chance(f"chain-{number}")
    chosen = chance.sample(_VALUE_STEPS, 3)
    return [
        Case(number, "upsert", [_UNWRAP, *chosen, _FILTER]),
        Case(number + 1, "append", [chance.choice(_ROUTERS)]),
    ]


CASES = [case for number in range(HISTORIES) for case in _cases(2 * number)]


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, id=f"{case.mode}-{case.number}", marks=[] if case.number == 0 else [pytest.mark.long]) for case in CASES],
)
def test_sql_and_rows_and_worker_give_the_same_tables(props: dict[str, str], topic: Any, case: Case) -> None:
    source = topic("t", schemas=True)
    chance = randomness.chance(f"gaps-{case.number}")
    for partition, log in enumerate(make_history(case.number, steps=0, events=60).logs):
        source.logs[partition] = [(event.key(), event.value()) for event in log if event.op != "t"]
        for entry in (GAP, GAP, (None, BAD), (b"{", None)):
            source.logs[partition].insert(chance.randrange(len(source.logs[partition])), entry)
        source.logs[partition].append(GAP)
        source.headers[partition, 5] = [("note", b"x")]
    worker, by_row, in_sql = (
        _run(case, name, props, source)
        for name in ({"spark.engine": "worker"}, {"executors.sql.transforms": "never"}, {"executors.sql.transforms": "always"})
    )
    assert by_row.sql_records == 0
    assert in_sql.sql_records > 10
    assert in_sql.tables == by_row.tables
    assert worker.tables == by_row.tables
    assert worker.failed == by_row.failed == in_sql.failed
    assert worker.refused == by_row.refused == in_sql.refused
    assert by_row.read == in_sql.read
    assert by_row.figures == in_sql.figures


def test_nothing_is_lost_doubled_or_shown_when_the_process_that_reads_dies(
    props: dict[str, str], topic: Any, read: Any, tmp_path: Path
) -> None:
    source = topic("t", schemas=True)
    for number in range(400):
        source.add(None, message(ROW_SCHEMA, {"id": number}))
    case = Case(0, "append", [_VALUE_STEPS[1]])
    settings = {**props, **case.config(), "spark.engine": "executors", "metadata.columns": "__offset"}
    settings |= {"executors.sql.transforms": "always", "sasl.password": "hidden"}
    running = ChainRun(settings, [source], {})
    marker = tmp_path / "died"
    running.reader = replace(running.reader, dies_at=300, marker=str(marker))
    plans: list[str] = []
    build = data_source.frame_of

    def note_plan(session: Any, job: RangeJob) -> Any:
        frame: Any = build(session, job)
        plans.append(frame._jdf.queryExecution().toString())
        return frame

    with small_ranges(), mock.patch.object(data_source, "frame_of", note_plan):
        running.finish()
    assert running.task.progress()["engine"]["sql_records"] == 391
    running.close()
    assert marker.exists()
    rows = sorted(read("t"), key=lambda row: row["id"])
    assert rows == [{"id": number, "origin": "it's", "__offset": number} for number in range(400)]
    assert "MapInArrow" in plans[-1]
    assert not any("hidden" in plan for plan in plans)


@dataclass(frozen=True)
class Outcome:
    tables: dict[str, tuple[list[dict[str, Any]], dict[str, pa.DataType]]]
    failed: list[Failed]
    refused: int
    read: int
    sql_records: int
    figures: tuple[Any, ...]


@contextlib.contextmanager
def small_ranges() -> Iterator[None]:
    """Few records are in several ranges, and worth SQL."""
    with (
        mock.patch.object(engine, "_FIRST_RECORDS", 9),
        mock.patch.object(ranges, "_LEAST_RECORDS", 20),
        mock.patch.object(sql_chain, "_FEWEST_RECORDS", 1),
    ):
        yield


def _run(case: Case, own: Mapping[str, str], props: Mapping[str, str], source: Any) -> Outcome:
    location = Path(props["table.location"]) / "_".join(f"{name}_{value}" for name, value in own.items())
    settings = {
        **props,
        "table.location": str(location),
        "spark.engine": "executors",
        "write.mode": case.mode,
        "metadata.columns": "__partition,__offset" if case.mode == "append" else "none",
        "errors.tolerance": "all",
        "vacuum.interval.ms": "0",
        **case.config(),
        **case.settings,
        **own,
    }
    if "executors.sql.transforms" in own:
        settings |= GENERATED  # the largest expressions that we write
    group: dict[TopicPartition, int] = {}
    with small_ranges():
        running = ChainRun(settings, [source], group)
        if settings["spark.engine"] == "worker":
            for partition in source.logs:
                running.deliver_partition(source, partition, len(source.logs[partition]), batch=7)
                running.commit()
        else:
            running.finish()
        progress = running.task.progress()
        running.close()
    lease = session.lease(parse_config(settings).spark)
    try:
        spark = lease.session()
        tables = {}
        for folder in sorted(path for path in location.iterdir() if (path / "_delta_log").is_dir()):
            found = spark.read.format("delta").load(str(folder)).toArrow()
            tables[folder.name] = sorted_rows(found.to_pylist()), dict(zip(found.schema.names, found.schema.types, strict=True))
    finally:
        lease.release()
    engine_figures = progress["engine"]
    return Outcome(
        tables,
        sorted(running.failed.values(), key=lambda one: one[:2]),
        progress["refused"],
        running.context.read,
        engine_figures.get("sql_records", 0),
        (engine_figures.get("records"), progress["ignored_tombstones"]),
    )
