"""Transformations that can work on columns, and applying several of them to a batch at once."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.columnar.columns import ChangedRecords, PartColumns, RecordColumns

_MIN_RECORDS = 4
"""Smaller batches are faster record by record."""


class ColumnTransformation(Transformation):
    """A transformation that can also work on columns. It drops no records, and each result depends on one record only."""

    reads_key: ClassVar[bool] = False
    reads_value: ClassVar[bool] = False

    @abstractmethod
    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        """Changes record by record. Raises DataError for the first bad one."""

    @abstractmethod
    def apply_columns(self, batch: RecordColumns) -> None:
        """Changes a batch, which has a key or value if this class reads it. Raises NotColumnar or another error for a batch that
        cannot be changed as a whole; the batch is then discarded, and :meth:`apply_rows` decides."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_rows((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        return list(apply_columnar_steps((self,), records))


def apply_columnar_steps(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    """Applies all steps to the records, in order. Raises the error of the first bad record."""
    if len(records) >= _MIN_RECORDS:
        # After any error, the records are changed one by one, which succeeds or raises the right error.
        with contextlib.suppress(Exception):
            return _apply_by_columns(steps, records)
    return _apply_by_rows(steps, records)


def _apply_by_rows(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    if len(steps) == 1:
        return steps[0].apply_rows(records)
    changed = records
    try:
        for step in steps:
            changed = step.apply_rows(changed)
    except Exception:
        # A later record may have failed at an earlier step; report the first bad record.
        for record in records:
            one: Sequence[ConnectRecord] = (record,)
            for step in steps:
                one = step.apply_rows(one)
        raise
    return changed


def _apply_by_columns(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    reads_key = any(step.reads_key for step in steps)
    reads_value = any(step.reads_value for step in steps)
    groups = list(_group_indexes(records, reads_key, reads_value))
    if len(groups) == 1:
        return _change_group(steps, records, reads_key, reads_value)
    if len(groups) * _MIN_RECORDS > len(records):
        return _apply_by_rows(steps, records)
    results: list[Any] = [None] * len(records)
    for indexes in groups:
        changed = _change_group(steps, [records[i] for i in indexes], reads_key, reads_value)
        for i, record in zip(indexes, changed, strict=True):
            results[i] = record
    return results


def _group_indexes(records: Sequence[ConnectRecord], reads_key: bool, reads_value: bool) -> Iterator[Sequence[int]]:
    """Groups record indexes by schema and by null or not, for the key and the value as far as they are read."""
    everything = range(len(records))
    if (not reads_key or _has_uniform_keys(records)) and (not reads_value or _has_uniform_values(records)):
        yield everything
        return
    groups: dict[tuple[int, bool, int, bool], list[int]] = {}
    for i, record in enumerate(records):
        key = (id(record.key_schema), record.key is None) if reads_key else (0, False)
        value = (id(record.value_schema), record.value is None) if reads_value else (0, False)
        groups.setdefault(key + value, []).append(i)
    yield from groups.values()


def _has_uniform_keys(records: Sequence[ConnectRecord]) -> bool:
    schema, is_null = records[0].key_schema, records[0].key is None
    return not [None for r in records if r.key_schema is not schema or (r.key is None) is not is_null]


def _has_uniform_values(records: Sequence[ConnectRecord]) -> bool:
    schema, is_null = records[0].value_schema, records[0].value is None
    return not [None for r in records if r.value_schema is not schema or (r.value is None) is not is_null]


def _change_group(
    steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord], reads_key: bool, reads_value: bool
) -> ChangedRecords:
    first = records[0]
    key = PartColumns(first.key_schema, [r.key for r in records], all_null=first.key is None) if reads_key else None
    value = PartColumns(first.value_schema, [r.value for r in records], all_null=first.value is None) if reads_value else None
    batch = RecordColumns(records, key, value)
    for step in steps:
        step.apply_columns(batch)
    return ChangedRecords(batch)
