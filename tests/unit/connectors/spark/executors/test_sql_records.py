"""What passes between the process that reads records, Spark SQL, and the process that writes them; here without Spark."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from connect.errors import ConnectError, RetriableError
from connect.plugins import Plugins
from connect.record import TopicPartition
from connect.sink import OffsetRange
from connect.transforms.chain import build_steps
from connectors.spark.config import parse_config
from connectors.spark.executors import range_processor, sql_chain, sql_reader
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.results import PartResult, RangeFailure, WrittenPart
from connectors.spark.executors.sql_chain import Prefixes, SqlChains, compile_chain, find_prefixes
from connectors.spark.executors.sql_reader import read_input
from connectors.spark.executors.sql_rows import CONTROL, FORM, READ
from connectors.spark.executors.sql_writer import write_computed
from connectors.spark.tables.delta.file_target import DeltaFileTarget
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.executor_files import WriteTarget
from connectors.spark.transforms.errors import NotCompilable
from tests.support.range_readers import GAP, ListTransformingReader, Log, list_reader

P0 = TopicPartition("t", 0)
COLUMNS = {"id": pa.int64(), "v": pa.string()}
APACHE = "org.apache.kafka.connect.transforms."
ROUTER = {
    "transforms": "r",
    "transforms.r.type": f"{APACHE}RegexRouter",
    "transforms.r.regex": "t",
    "transforms.r.replacement": "rows",
    "errors.tolerance": "all",
}
_FIELDS = '{"type":"int64","optional":false,"field":"id"},{"type":"string","optional":true,"field":"v"}'
PREFIX = b'{"schema":{"type":"struct","optional":false,"fields":[' + _FIELDS.encode() + b']},"payload":'


def record(id_: Any, v: str | None = "x", prefix: bytes = PREFIX) -> tuple[None, bytes]:
    return None, prefix + json.dumps({"id": id_, "v": v}, separators=(",", ":")).encode() + b"}"


def compiled(reader: ListTransformingReader, prefixes: Prefixes) -> Any:
    config = parse_config({"topics": "t", "table.location": "/lake"})
    return compile_chain(config, reader, build_steps(reader.chain_config(), Plugins.discover()), "t", prefixes)


class Pipeline:
    """Runs ranges of topic ``t`` into a table ``rows``. The chain only routes: its SQL is simple enough to do it here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "rows" / "_delta_log").mkdir(parents=True)
        (folder / "rows" / "_delta_log" / f"{3:020}.json").touch()
        files = DeltaFileTarget(str(folder / "rows"), None, TableLayout(COLUMNS), 3, 1000)
        self.targets = {"rows": WriteTarget(COLUMNS, {}, (), (), files)}
        self.leaves: frozenset[int] = frozenset()
        """Offsets of records that SQL leaves."""

    def job(
        self, log: Log, first: int = 0, fails_at: int | None = None, prefix: bytes = PREFIX, **more: str
    ) -> RangeJob:  # fmt: skip
        settings = {"topics": "t", "table.location": str(self.folder), "metadata.columns": "none", **ROUTER, **more}
        reader = list_reader(settings, {"t": {0: log}}, {(0, 1): [("h", b"x")]})
        reader = ListTransformingReader(reader.kafka, reader.logs, reader.headers, fails_at=fails_at, batch=4)
        chain = compiled(reader, Prefixes(None, prefix))
        whole = OffsetRange(P0, first, len(log))
        return RangeJob(parse_config(settings), reader, [whole], self.targets, ({}, {}), True, {"t": chain})

    def input(self, job: RangeJob) -> list[pa.RecordBatch]:
        return list(read_input(pickle.dumps(job), "t", 0))

    def write(self, job: RangeJob, batches: Sequence[pa.RecordBatch]) -> list[PartResult | RangeFailure]:
        return [pickle.loads(one) for one in write_computed(pickle.dumps(job), "t", map(self._compute, batches))]

    def run(self, log: Log, **more: Any) -> list[PartResult | RangeFailure]:
        job = self.job(log, **more)
        return self.write(job, self.input(job))

    def _compute(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = {field.name: batch.column(field.name) for field in batch.schema}
        forms, offsets = columns[FORM].to_pylist(), columns["offset"].to_pylist()
        left = [form != READ or offset in self.leaves for form, offset in zip(forms, offsets, strict=True)]
        columns["outcome"] = pa.array(np.where(left, -1, 0), pa.int32())
        columns["topic"] = pa.repeat(pa.scalar("rows"), batch.num_rows)
        columns["value_0"] = columns.pop("value")
        del columns["key"], columns["partition"], columns["headers"]
        return pa.record_batch(list(columns.values()), list(columns))

    def rows(self, part: Any) -> list[dict[str, Any]]:
        written = part.tables["rows"]
        assert isinstance(written, WrittenPart)
        found = [row for path, _, _ in written.files for row in pq.read_table(self.folder / "rows" / path).to_pylist()]
        return sorted(found, key=lambda row: row["id"])

    def files(self) -> list[Path]:
        return list((self.folder / "rows").glob("*.parquet"))


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return Pipeline(tmp_path)


def test_records_that_sql_leaves_and_those_it_computes_are_written_together(pipeline: Pipeline) -> None:
    other = PREFIX.replace(b'"string"', b'"string","doc":"other"')
    log = [record(0), record(1), record(2), record(3, prefix=other), record(4), GAP]
    pipeline.leaves = frozenset({2})
    (part,) = pipeline.run(log)
    assert isinstance(part, PartResult)
    assert [row["id"] for row in pipeline.rows(part)] == [0, 1, 2, 3, 4]
    # One has a header, one is left, and one has another schema.
    assert (part.first, part.end, part.records, part.sql_records) == (0, 6, 5, 2)
    assert part.prefixes == Prefixes(None, other)
    assert part.size_bytes == sum(len(value or b"") for _, value in log[:5])


def test_errant_records_have_their_bytes_whoever_refuses_them(pipeline: Pipeline) -> None:
    bad: Log = [record(0), (None, b"{"), record("text"), record(3)]
    (part,) = pipeline.run(bad)
    assert isinstance(part, PartResult)
    failed = [(one.record.offset, one.record.value, one.stage, one.record.timestamp_type) for one in part.failed_reads]
    assert failed == [(1, b"{", "VALUE_CONVERTER", "CreateTime"), (2, bad[2][1], "VALUE_CONVERTER", "CreateTime")]
    assert [row["id"] for row in pipeline.rows(part)] == [0, 3]


def test_records_that_no_column_can_hold_are_reported_with_their_bytes(pipeline: Pipeline) -> None:
    logical = '"name":"org.apache.kafka.connect.data.Decimal","version":1,"parameters":{"scale":"2"}'
    prefix = PREFIX.replace(b'"string","optional":true', b'"bytes","optional":true,' + logical.encode())
    files = pipeline.targets["rows"].files
    pipeline.targets["rows"] = WriteTarget({"id": pa.int64(), "v": pa.decimal128(38, 2)}, {}, (), (), files)
    too_large = base64.b64encode(b"\x7f" * 17).decode()
    log = [record(0, "AN0=", prefix), record(2, too_large, prefix), record(3, None, prefix), record(4, too_large, prefix)]
    (part,) = pipeline.run(log, prefix=prefix)
    assert isinstance(part, PartResult)
    assert [(offset, one.offset, one.value) for offset, _, one in part.bad_records] == [(1, 1, log[1][1]), (3, 3, log[3][1])]
    assert [(row["id"], str(row["v"])) for row in pipeline.rows(part)] == [(0, "2.21"), (3, "None")]


def test_failure_that_is_not_tolerated_ends_the_range(pipeline: Pipeline) -> None:
    log: Log = [record(0), (None, b"{"), *(record(at) for at in range(2, 40))]
    (part,) = pipeline.run(log, **{"errors.tolerance": "none"})
    assert isinstance(part, PartResult)
    assert [one.record.offset for one in part.failed_reads] == [1]


def test_range_without_records_is_a_part(pipeline: Pipeline) -> None:
    (part,) = pipeline.run([GAP, GAP, GAP], first=1)
    assert isinstance(part, PartResult)
    assert (part.first, part.end, part.records, part.tables) == (1, 3, 0, {})


def test_parts_end_where_chunks_do(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_reader, "_CHUNK_RECORDS", 8)
    monkeypatch.setattr(range_processor, "_PART_RECORDS", 16)
    parts = pipeline.run([record(at) for at in range(40)])
    found = [(part.first, part.end, part.records) for part in parts if isinstance(part, PartResult)]
    assert found == [(0, 16, 16), (16, 32, 16), (32, 40, 8)]
    assert [row["id"] for part in parts for row in pipeline.rows(part)] == list(range(40))


def test_files_are_deleted_when_reading_fails_or_stops(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_reader, "_CHUNK_RECORDS", 8)
    monkeypatch.setattr(range_processor, "_PART_RECORDS", 8)
    log = [record(at) for at in range(40)]
    *_, last = pipeline.run(log, fails_at=30)
    assert isinstance(last, RangeFailure)
    assert last.message == "the broker is gone"
    assert not pipeline.files()
    job = pipeline.job(log)
    batches = pipeline.input(job)
    with pytest.raises(RetriableError, match="ended at 32"):
        pipeline.write(job, batches[:-1])
    assert not pipeline.files()


def test_control_rows_say_what_was_read(pipeline: Pipeline) -> None:
    batches = pipeline.input(pipeline.job([record(0), record(1), (None, None)]))
    forms = [form for batch in batches for form in batch.column(FORM).to_pylist()]
    assert forms == [CONTROL, 0, 1, 1, CONTROL]
    assert all(batch.column("headers").null_count == 0 for batch in batches[1:-1])


@pytest.mark.parametrize(
    ("own", "prefixes", "reason"),
    [
        ({"transforms.r.type": "io.debezium.transforms.ByLogicalTableRouter", "transforms.r.topic.regex": "t",
          "transforms.r.topic.replacement": "x"}, Prefixes(None, PREFIX), "it runs in Python only"),
        ({}, Prefixes(None, b'{"schema":{"type":"map","optional":false,"keys":{"type":"string","optional":false},'
                            b'"values":{"type":"string","optional":false}},"payload":'), "maps"),
        ({"transforms.r.type": f"{APACHE}InsertHeader", "transforms.r.header": "__debezium.oldkey",
          "transforms.r.value.literal": "x"}, Prefixes(None, PREFIX), "__debezium.oldkey"),
    ],
)  # fmt: skip
def test_reason_against_sql_is_told(own: Mapping[str, str], prefixes: Prefixes, reason: str) -> None:
    settings = {name: text for name, text in ROUTER.items() if not own or not name.startswith("transforms.r")} | dict(own)
    with pytest.raises(NotCompilable, match=reason):
        compiled(list_reader(settings, {}), prefixes)


def test_other_converters_run_row_by_row() -> None:
    reader = list_reader(ROUTER, {})
    for own in ({"schemas.enable": "false"}, {"schemas.enable": "true", "conversion.strict": "false"}):
        kafka = pickle.loads(pickle.dumps(reader.kafka))
        object.__setattr__(kafka, "value", (kafka.value[0], own))
        with pytest.raises(NotCompilable):
            compiled(ListTransformingReader(kafka, {}), Prefixes(None, PREFIX))


def test_chains_are_compiled_once_the_schema_is_known_and_the_job_is_large() -> None:
    chains = SqlChains(parse_config({"topics": "t", "table.location": "/lake", "executors.sql.transforms": "always"}))
    reader = list_reader(ROUTER, {})
    large = [OffsetRange(P0, 0, sql_chain._FEWEST_RECORDS)]
    assert chains.are_wanted(reader)
    assert not chains.compile(reader, large)
    chains.learn("t", Prefixes(None, PREFIX))
    found = chains.compile(reader, large)
    assert found["t"].value.field_names == ("id", "v")
    assert chains.compile(reader, large)["t"] is found["t"]
    assert not chains.compile(reader, [OffsetRange(P0, 0, 10)])
    assert not chains.are_wanted(list_reader({}, {}))


@pytest.mark.parametrize(
    ("wanted", "of_one_step", "of_two_steps"), [("auto", False, True), ("always", True, True), ("never", False, False)]
)
def test_sql_is_wanted_for_at_least_two_steps_if_the_configuration_leaves_it_open(
    wanted: str, of_one_step: bool, of_two_steps: bool
) -> None:
    chains = SqlChains(parse_config({"topics": "t", "table.location": "/lake", "executors.sql.transforms": wanted}))
    two_steps = ROUTER | {"transforms": "r,again"}
    assert chains.are_wanted(list_reader(ROUTER, {})) is of_one_step
    assert chains.are_wanted(list_reader(two_steps, {})) is of_two_steps


def test_prefixes_are_those_of_the_last_record_with_a_value() -> None:
    key = b'{"schema":{"type":"int64","optional":false},"payload":'
    values = [record(0)[1], record(1)[1], None]
    assert find_prefixes([None, key + b"1}", None], values) == Prefixes(key, PREFIX)
    assert find_prefixes([None], [b"{}"]) is None
    assert find_prefixes([None, None], [None, None]) is None


def test_range_without_a_start_is_an_error(pipeline: Pipeline) -> None:
    job = pipeline.job([record(0)])

    def rest() -> Iterator[pa.RecordBatch]:
        yield from pipeline.input(job)[1:]

    with pytest.raises(RetriableError, match="without its start"):
        pipeline.write(job, list(rest()))


def test_error_of_a_missing_table_is_told(pipeline: Pipeline, tmp_path: Path) -> None:
    elsewhere = DeltaFileTarget(str(tmp_path / "elsewhere"), None, TableLayout(COLUMNS), 3, 1000)
    pipeline.targets["rows"] = WriteTarget(COLUMNS, {}, (), (), elsewhere)
    (failure,) = pipeline.run([record(0)])
    assert isinstance(failure, RangeFailure)
    assert "does not find version 3" in failure.message
    assert ConnectError(failure.message).message == failure.message
