"""Puffin files, read by PyIceberg and by the sink."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from connectors.spark.tables.files.row_bitmaps import DamagedVector
from connectors.spark.tables.iceberg.puffin import encode_puffin, read_vector


@given(st.lists(st.sets(st.integers(0, 200_000), min_size=1), min_size=1, max_size=3))
def test_vectors_are_read_by_pyiceberg(vectors: list[set[int]]) -> None:
    named = [(f"file{number}.parquet", np.array(sorted(rows))) for number, rows in enumerate(vectors)]
    content, places = encode_puffin(named)
    found = deletion_vectors_from_puffin_file(PuffinFile(content))
    read = {vector.referenced_data_file: vector.to_vector().to_pylist() for vector in found}
    assert read == {path: rows.tolist() for path, rows in named}
    for (offset, length), (_, rows) in zip(places, named, strict=True):
        assert read_vector(content, offset, length, len(rows)).tolist() == rows.tolist()


def test_damage_is_noticed() -> None:
    content, [(offset, length)] = encode_puffin([("f", np.array([1, 5]))])
    for at in range(offset, offset + length):
        damaged = bytearray(content)
        damaged[at] ^= 1
        with pytest.raises(DamagedVector):
            read_vector(bytes(damaged), offset, length, 2)
    with pytest.raises(DamagedVector, match="is cut"):
        read_vector(content[: offset + 5], offset, length, 2)
    with pytest.raises(DamagedVector, match="2 rows instead of 3"):
        read_vector(content, offset, length, 3)
