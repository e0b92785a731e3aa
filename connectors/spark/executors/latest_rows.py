"""Finds, among the files of one upsert, the rows that later files replace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from connectors.spark.decode.change_batch import PARTITION_ID
from connectors.spark.decode.change_batch import POSITION as SOURCE_POSITION
from connectors.spark.executors.results import FILE, POSITION, ROW, PartResult, WrittenPart, key_names, unpack_table
from connectors.spark.plan.deduplicate import TOPIC_ID, DeduplicatedChanges
from connectors.spark.plan.key_equality import last_rows, number_keys
from connectors.spark.tables.executor_files import ExecutorFile, ExecutorFiles, WrittenRows


@dataclass(frozen=True, slots=True)
class _NumberedPart:
    keys: pa.Table
    """Keys, files (numbered over all parts), rows, topic, partition, position."""
    files: Sequence[ExecutorFile]


def join_parts(parts: Sequence[tuple[PartResult, WrittenPart]]) -> WrittenRows:
    """The rows of parts of one table together. In the order of the parts, the last change of a key wins."""
    schema = pa.unify_schemas([written.schema for _, written in parts])
    count = sum(rows for _, written in parts for _, _, rows in written.files)
    if all(written.latest is None for _, written in parts):
        files = [ExecutorFile(path, entry, rows) for _, written in parts for path, entry, rows in written.files]
        return WrittenRows(ExecutorFiles(schema, files), count)
    keys = next(written.keys for _, written in parts if written.keys)
    names = key_names(len(keys))
    numbered: list[_NumberedPart] = []
    for result, written in parts:
        numbered.append(_number(result, written, keys, sum(len(part.files) for part in numbered)))
    whole = pa.concat_tables([part.keys for part in numbered], promote_options="permissive")
    latest, superseded = _find_latest(whole, names)
    found = [file for part in numbered for file in part.files]
    files = [
        ExecutorFile(file.path, file.entry, file.rows, file.keys, superseded[number]) if number in superseded else file
        for number, file in enumerate(found)
    ]
    changes = DeduplicatedChanges(
        latest.select(names).rename_columns(list(keys)),
        latest.select([TOPIC_ID, PARTITION_ID, SOURCE_POSITION]),
        pc.less(latest[FILE], 0),
        {},
        None,
        sum(written.unavailable for _, written in parts),
    )
    return WrittenRows(ExecutorFiles(schema, files), count - sum(map(len, superseded.values())), keys, changes)


def _number(result: PartResult, written: WrittenPart, keys: Sequence[str], first: int) -> _NumberedPart:
    assert written.latest is not None
    names = key_names(len(keys))
    table = unpack_table(written.latest).sort_by([(FILE, "ascending"), (ROW, "ascending")])
    in_file = table[FILE].to_numpy()
    files = []
    for number, (path, entry, rows) in enumerate(written.files):
        start = int(np.searchsorted(in_file, number))
        files.append(ExecutorFile(path, entry, rows, table.slice(start, rows).select(names).rename_columns(list(keys))))
    moved = np.where(in_file < 0, -1, in_file + first).astype(np.int32)
    count = table.num_rows
    position = table[POSITION] if POSITION in table.column_names else pa.nulls(count, pa.string())
    place = {
        FILE: pa.array(moved),
        ROW: table[ROW],
        TOPIC_ID: pa.repeat(pa.scalar(result.partition.topic), count),
        PARTITION_ID: pa.repeat(pa.scalar(result.partition.partition, pa.int32()), count),
        SOURCE_POSITION: position,
    }
    columns = {name: table[name] for name in names}
    return _NumberedPart(pa.table([*columns.values(), *place.values()], names=[*columns, *place]), files)


def _find_latest(whole: pa.Table, names: list[str]) -> tuple[pa.Table, dict[int, np.ndarray]]:
    """The last row of each key, and by file the other rows, sorted."""
    last = np.sort(last_rows(number_keys([whole[name] for name in names], whole.num_rows)))
    if len(last) == whole.num_rows:
        return whole, {}
    others = np.setdiff1d(np.arange(whole.num_rows), last, assume_unique=True)
    files, rows = whole[FILE].to_numpy()[others], whole[ROW].to_numpy()[others].astype(np.int64)
    superseded = {int(number): np.sort(rows[files == number]) for number in np.unique(files) if number >= 0}
    return whole.take(pa.array(last)), superseded
