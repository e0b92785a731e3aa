"""The bounds of a batch in the spool."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest

from connect.errors import ConnectError, DataError
from connect.spool.positions import SpoolPosition
from connect.spool.reader import SpoolReader
from connect.spool.writer import SpoolWriter
from connectors.spark.datasource.bounds import BOUNDS, bounds_row, slices_between
from tests.unit.connect.spool.spools import add


def fill(directory: Path) -> SpoolReader:
    """A spool of three segments with four rows each."""
    with closing(SpoolWriter(directory, "numbers")) as writer:
        for first in (0, 4, 8):
            add(writer, first, 4)
    reader = SpoolReader(directory)
    assert reader.refresh()
    return reader


def test_rows_between_bounds_are_those_that_the_bounds_were_made_of(tmp_path: Path) -> None:
    reader = fill(tmp_path / "spool")
    for start, end in (((0, 0), (3, 0)), ((0, 1), (2, 3)), ((1, 2), (1, 3)), ((1, 0), (2, 0))):
        slices = reader.slices(SpoolPosition(*start), SpoolPosition(*end))
        row = pa.RecordBatch.from_pylist([bounds_row(reader.id, slices)], schema=BOUNDS).to_pylist()[0]
        assert slices_between(SpoolReader(tmp_path / "spool"), row) == slices


def test_batch_without_rows_needs_no_spool(tmp_path: Path) -> None:
    assert slices_between(SpoolReader(tmp_path / "none"), bounds_row("1", [])) == []


def test_bounds_of_another_spool_and_of_removed_rows_are_refused(tmp_path: Path) -> None:
    reader, other = fill(tmp_path / "spool"), fill(tmp_path / "other")
    row = bounds_row(reader.id, reader.slices(SpoolPosition(0, 0), SpoolPosition(3, 0)))
    with pytest.raises(ConnectError, match=rf"the query reads spool {reader.id}, which {other.directory} does not have"):
        slices_between(other, row)
    reader.confirm(SpoolPosition(1, 0))
    with pytest.raises(DataError, match=r"the batch starts at segment 0, row 0, but the spool .* was committed up to segment 1"):
        slices_between(reader, row)
