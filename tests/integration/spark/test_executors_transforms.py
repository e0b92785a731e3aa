"""Spark's executors run transformations: the tables, and the records that fail, are those of the worker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow as pa
import pytest

from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.executors import engine, job
from tests.integration.spark.chain_runs import GAP, ChainRun, Failed
from tests.integration.spark.histories import make_history, sorted_rows
from tests.support import randomness

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


@dataclass(frozen=True)
class Case:
    """A history, and the transformations of its records."""

    number: int
    mode: str
    steps: Sequence[Mapping[str, str]]

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


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.mode}-{case.number}") for case in CASES])
def test_executors_and_worker_give_the_same_tables(props: dict[str, str], topic: Any, case: Case) -> None:
    source = topic("t", schemas=True)
    chance = randomness.chance(f"gaps-{case.number}")
    for partition, log in enumerate(make_history(case.number, steps=0, events=60).logs):
        source.logs[partition] = [(event.key(), event.value()) for event in log if event.op != "t"]
        for entry in (GAP, GAP, (None, BAD), (b"{", None)):
            source.logs[partition].insert(chance.randrange(len(source.logs[partition])), entry)
        source.logs[partition].append(GAP)
        source.headers[partition, 5] = [("note", b"x")]
    worker, executors = (_run(case, engine_name, props, source) for engine_name in ("worker", "executors"))
    assert worker.tables
    assert worker.failed
    assert executors == worker


@dataclass(frozen=True)
class Outcome:
    tables: dict[str, tuple[list[dict[str, Any]], dict[str, pa.DataType]]]
    failed: list[Failed]
    refused: int
    ignored_tombstones: int


def _run(case: Case, engine_name: str, props: Mapping[str, str], source: Any) -> Outcome:
    location = Path(props["table.location"]) / engine_name
    settings = {
        **props,
        "table.location": str(location),
        "spark.engine": engine_name,
        "write.mode": case.mode,
        "metadata.columns": "__partition,__offset" if case.mode == "append" else "none",
        "errors.tolerance": "all",
        "vacuum.interval.ms": "0",
        **case.config(),
    }
    group: dict[TopicPartition, int] = {}
    # Few records are in several ranges.
    with mock.patch.object(engine, "_FIRST_RECORDS", 9), mock.patch.object(job, "_LEAST_RECORDS", 20):
        running = ChainRun(settings, [source], group)
        if engine_name == "worker":
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
    failed = sorted(running.failed.values(), key=lambda one: one[:2])
    return Outcome(tables, failed, progress["refused"], progress["ignored_tombstones"])
