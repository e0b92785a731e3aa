"""Transformations that work on whole batches in columns, and how several of them are applied to a batch in one go."""

from __future__ import annotations

import contextlib
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

from connect.record import ConnectRecord
from connect.transforms.api import Transformation
from connect.transforms.columnar.columns import ChangedRecords, RecordColumns, SideColumns

_MIN_RECORDS = 4
"""Below this, columns cost more than they save."""


class ColumnTransformation(Transformation):
    """A transformation that can work on columns too. It drops no records, and what it makes of one does not depend on others."""

    reads_key: ClassVar[bool] = False
    reads_value: ClassVar[bool] = False

    @abstractmethod
    def apply_rows(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord]:
        """Each record changed, one after the other. Raises DataError for the first bad one."""

    @abstractmethod
    def apply_columns(self, batch: RecordColumns) -> None:
        """The same to a batch, whose key or value is there if this class reads it. Raises Unfit, or an error, for a batch that it
        cannot change as a whole; the batch is then thrown away, and :meth:`apply_rows` has the word."""

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        return self.apply_rows((record,))[0]

    def apply_batch(self, records: Sequence[ConnectRecord]) -> list[ConnectRecord | None]:
        return list(apply_in_columns((self,), records))


def apply_in_columns(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    """Every record after all steps, in order. Raises the error of the first bad record."""
    if len(records) >= _MIN_RECORDS:
        # Whatever goes wrong: going by rows does not have it, or has its exact words.
        with contextlib.suppress(Exception):
            return _through_columns(steps, records)
    return _through_rows(steps, records)


def _through_rows(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    if len(steps) == 1:
        return steps[0].apply_rows(records)
    changed = records
    try:
        for step in steps:
            changed = step.apply_rows(changed)
    except Exception:
        # A later record failed at an earlier step, maybe: the first bad record is to be told.
        for record in records:
            one: Sequence[ConnectRecord] = (record,)
            for step in steps:
                one = step.apply_rows(one)
        raise
    return changed


def _through_columns(steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord]) -> Sequence[ConnectRecord]:
    reads_key = any(step.reads_key for step in steps)
    reads_value = any(step.reads_value for step in steps)
    groups = list(_groups(records, reads_key, reads_value))
    if len(groups) == 1:
        return _changed(steps, records, reads_key, reads_value)
    if len(groups) * _MIN_RECORDS > len(records):
        return _through_rows(steps, records)
    results: list[Any] = [None] * len(records)
    for places in groups:
        changed = _changed(steps, [records[i] for i in places], reads_key, reads_value)
        for i, record in zip(places, changed, strict=True):
            results[i] = record
    return results


def _groups(records: Sequence[ConnectRecord], reads_key: bool, reads_value: bool) -> Iterator[Sequence[int]]:
    """The places of records that share schemas, and have a datum or have none, on the sides that are read."""
    everything = range(len(records))
    if (not reads_key or _is_one_key(records)) and (not reads_value or _is_one_value(records)):
        yield everything
        return
    groups: dict[tuple[int, bool, int, bool], list[int]] = {}
    for i, record in enumerate(records):
        key = (id(record.key_schema), record.key is None) if reads_key else (0, False)
        value = (id(record.value_schema), record.value is None) if reads_value else (0, False)
        groups.setdefault(key + value, []).append(i)
    yield from groups.values()


def _is_one_key(records: Sequence[ConnectRecord]) -> bool:
    schema, is_null = records[0].key_schema, records[0].key is None
    return not [None for r in records if r.key_schema is not schema or (r.key is None) is not is_null]


def _is_one_value(records: Sequence[ConnectRecord]) -> bool:
    schema, is_null = records[0].value_schema, records[0].value is None
    return not [None for r in records if r.value_schema is not schema or (r.value is None) is not is_null]


def _changed(
    steps: Sequence[ColumnTransformation], records: Sequence[ConnectRecord], reads_key: bool, reads_value: bool
) -> ChangedRecords:
    first = records[0]
    key = SideColumns(first.key_schema, [r.key for r in records], all_null=first.key is None) if reads_key else None
    value = SideColumns(first.value_schema, [r.value for r in records], all_null=first.value is None) if reads_value else None
    batch = RecordColumns(records, key, value)
    for step in steps:
        step.apply_columns(batch)
    return ChangedRecords(batch)
