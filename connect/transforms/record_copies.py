"""Copies records, because transformations never change the records that they get."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

from connect.record import ConnectRecord, SinkRecord, SourceRecord

R = TypeVar("R", bound=ConnectRecord)
_new = object.__new__


def copy_record(record: R) -> R:
    """Copies a record and its headers; the class stays the same."""
    copied: R = copy_records((record,))[0]
    return copied


def copy_records(records: Sequence[ConnectRecord]) -> list[Any]:
    """Copies each record and its headers."""
    # Copying slot by slot is three times as fast as copy.copy, and this runs for every record of every chain.
    copies: list[Any] = []
    given: Any
    for given in records:
        kind = given.__class__
        new: Any
        if kind is SourceRecord:
            new = _new(SourceRecord)
            new.source_partition = given.source_partition
            new.source_offset = given.source_offset
        elif kind is SinkRecord:
            new = _new(SinkRecord)
            new.offset = given.offset
            new.timestamp_type = given.timestamp_type
            new.original_topic = given.original_topic
            new.original_partition = given.original_partition
        else:
            new = copy.copy(given)
            if given.headers is not None:
                new.headers = given.headers.copy()
            copies.append(new)
            continue
        new.topic = given.topic
        new.partition = given.partition
        new.key_schema = given.key_schema
        new.key = given.key
        new.value_schema = given.value_schema
        new.value = given.value
        new.timestamp = given.timestamp
        headers = given.headers
        new.headers = headers if headers is None else headers.copy()
        copies.append(new)
    return copies
