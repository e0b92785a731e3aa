"""Writes the records of one offset range after Spark SQL, in an executor."""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterable, Iterator

import pyarrow as pa

from connect.errors import ConnectError, RetriableError
from connect.sink import OffsetRange
from connectors.spark.executors.computed_records import ComputedBatch
from connectors.spark.executors.job import RangeJob
from connectors.spark.executors.range_processor import RangeProcessor
from connectors.spark.executors.results import RangeFailure
from connectors.spark.executors.sql_chain import SqlChain
from connectors.spark.executors.sql_rows import (
    INPUT,
    ChunkEnd,
    ComputedRows,
    Control,
    RangeStart,
    ReadFailure,
    split_at_controls,
)
from connectors.spark.zip_finders import forget_zip_finders


def write_computed(job_data: bytes, topic: str, batches: Iterable[pa.RecordBatch]) -> Iterator[bytes]:
    """Yields, pickled, the parts of the range that the batches begin with, as they are finished. Errors are those of
    :func:`connectors.spark.executors.range_processor.read_results`."""
    forget_zip_finders()
    job: RangeJob = pickle.loads(job_data)
    steps = (step for batch in batches for step in split_at_controls(batch))
    try:
        for start in steps:
            if not isinstance(start, RangeStart):
                raise RetriableError("the records of a range came without its start")
            offset_range = job.ranges[start.number]
            computed = read_computed(job.chains[topic], offset_range, steps)
            for part in RangeProcessor(job, offset_range).process(computed):
                yield pickle.dumps(part)
            return  # what follows a failure that is not tolerated is not read
    except RetriableError:
        raise
    except ConnectError as e:
        yield pickle.dumps(RangeFailure(e.message, socket.gethostname()))


def read_computed(
    chain: SqlChain, offset_range: OffsetRange, steps: Iterable[pa.RecordBatch | Control]
) -> Iterator[ComputedBatch]:
    """Collects the rows of each chunk of a range. Raises ConnectError if reading failed, and RetriableError if the rows end
    before the range does, as they do when the process that reads dies."""
    waiting: list[pa.RecordBatch] = []
    schema: pa.Schema | None = None
    end = offset_range.first
    prefixes = chain.prefixes.key or b"", chain.prefixes.value
    for step in steps:
        match step:
            case ChunkEnd():
                end = step.end
                rows = pa.Table.from_batches(waiting, schema or _schema_without_rows())
                yield ComputedBatch(ComputedRows(offset_range.partition, rows, prefixes), end, step.records, step.size_bytes)
                waiting = []
            case ReadFailure():
                raise ConnectError(step.message)
            case pa.RecordBatch():
                schema = step.schema
                waiting.append(step)
            case _:
                raise RetriableError(f"the records of another range follow {offset_range}")
    if end < offset_range.end:
        raise RetriableError(f"the records of {offset_range} ended at {end}")


def _schema_without_rows() -> pa.Schema:
    """Columns of a chunk without records, as far as anything reads them."""
    return pa.schema([("outcome", pa.int32()), *INPUT])
