"""Positions in a spool, and the reader's marks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from connect.errors import DataError
from connect.spool.files import naming_spool, replace_file

CONFIRMED = "confirmed.json"
"""The mark up to which the reader has committed: the writer may confirm the rows before it to the source, and remove them."""
LOADED = "loaded.json"
"""The mark up to which a load was read: a stream starts there."""
PLANNED = "planned.json"
"""The mark up to which the reader has planned to read: no batch that it has started ends behind it."""
_FIRST_BATCH = "first-batch.json"


class SpoolPosition(NamedTuple):
    """All rows of the segments before ``segment``, and the first ``row`` of it. After a whole segment, row 0 of the next."""

    segment: int
    row: int

    def __str__(self) -> str:
        return f"segment {self.segment}, row {self.row}"


START = SpoolPosition(0, 0)


def parse_position(node: Mapping[str, Any], described_as: str) -> SpoolPosition:
    """Reads ``{"segment": s, "row": r}``. Raises DataError that begins with ``described_as``."""
    segment, row = node.get("segment"), node.get("row")
    if type(segment) is not int or type(row) is not int or segment < 0 or row < 0:
        raise DataError(f"{described_as} is no position of a spool: {json.dumps(dict(node))[:200]}")
    return SpoolPosition(segment, row)


def write_mark(directory: Path, spool_id: str, name: str, position: SpoolPosition) -> None:
    """Stores a mark of the reader. Durable on return. Raises ConnectError."""
    _write(directory, spool_id, name, position._asdict())


def read_mark(directory: Path, spool_id: str, name: str) -> SpoolPosition:
    """Returns a mark of the reader; the start if there is none. Raises DataError if it is damaged or belongs to another spool."""
    node = _read(directory, spool_id, name)
    return START if node is None else parse_position(node, str(directory / name))


def write_first_batch(directory: Path, spool_id: str, batch: str) -> None:
    """Stores the ID of the first batch with rows that a stream is given. Durable on return. Raises ConnectError."""
    _write(directory, spool_id, _FIRST_BATCH, {"batch": batch})


def read_first_batch(directory: Path, spool_id: str) -> str | None:
    """Returns the ID of the first batch with rows that a stream was given; None if no stream was given rows. Raises DataError as
    :func:`read_mark` does."""
    node = _read(directory, spool_id, _FIRST_BATCH)
    return None if node is None else str(node.get("batch"))


def _write(directory: Path, spool_id: str, name: str, node: Mapping[str, Any]) -> None:
    with naming_spool(directory, "write to"):
        replace_file(directory / name, json.dumps({"spool": spool_id, **node}).encode() + b"\n")


def _read(directory: Path, spool_id: str, name: str) -> dict[str, Any] | None:
    path = directory / name
    try:
        node = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as e:
        raise DataError(f"{path} cannot be read: {e}. Restore it, or delete the spool to read the source again") from e
    if not isinstance(node, dict) or node.get("spool") != spool_id:
        raise DataError(f"{path} belongs to another spool than {directory}. Delete the spool to read the source again")
    return node
