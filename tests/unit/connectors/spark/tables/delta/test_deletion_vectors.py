"""The format of deletion vectors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import ConnectError
from connectors.spark.tables.delta.deletion_vectors import (
    Descriptor,
    decode_vector,
    encode_vector_file,
    inline_vector,
    read_vector,
    vector_file_name,
    vector_location,
)
from connectors.spark.tables.files.row_bitmaps import DamagedVector, decode_rows_bitmap, encode_rows_bitmap

# What Delta 4.4 wrote for the deleted rows 5 and 3 of two files.
SPARKS_FILE = bytes.fromhex(
    "0100000022d1d339640100000000000000000000003a3000000100000000000000100000000500"
    "8ad140f00000002 2d1d339640100000000000000000000003a3000000100000000000000100000000300dc8be776".replace(" ", "")
)


def test_a_file_has_the_bytes_that_delta_writes() -> None:
    data, identity, descriptors = encode_vector_file([np.array([5]), np.array([3])])
    assert data == SPARKS_FILE
    assert [d["offset"] for d in descriptors] == [1, 43]
    assert [d["cardinality"] for d in descriptors] == [1, 1]
    assert vector_location(descriptors[1]) == (vector_file_name(identity), 47, 34)


def test_a_descriptor_of_delta_names_its_file() -> None:
    descriptor: Descriptor = {"storageType": "u", "pathOrInlineDv": "on]49F^k2HUX/fzibKqZ", "offset": 1, "sizeInBytes": 34}
    assert vector_location(descriptor) == ("deletion_vector_4b8c929e-8207-4da9-b06d-87d2386d83be.bin", 5, 34)
    prefixed = {**descriptor, "pathOrInlineDv": "ab" + descriptor["pathOrInlineDv"]}
    assert vector_location(prefixed) == ("ab/deletion_vector_4b8c929e-8207-4da9-b06d-87d2386d83be.bin", 5, 34)


@given(st.sets(st.integers(0, 3_000_000), min_size=1))
def test_vectors_survive_a_round_trip(rows: set[int]) -> None:
    wanted = np.array(sorted(rows))
    assert decode_rows_bitmap(encode_rows_bitmap(wanted)).tolist() == wanted.tolist()


def test_a_vector_in_the_log_is_read() -> None:
    # The example of Delta's protocol: rows 3, 4, 7, 11, 18, and 29.
    descriptor = {
        "storageType": "i",
        "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
        "sizeInBytes": 40,
        "cardinality": 6,
    }
    assert inline_vector(descriptor).tolist() == [3, 4, 7, 11, 18, 29]


def test_damaged_vectors_are_reported() -> None:
    with pytest.raises(ConnectError, match="damaged"):
        decode_vector(b"nonsense that is long enough")


@pytest.mark.parametrize("damage", [lambda d: d[:20], lambda d: d[:-6] + bytes([d[-6] ^ 4]) + d[-5:], lambda d: b"\x01" * len(d)])
def test_vector_whose_file_was_cut_or_changed_is_reported(damage: Callable[[bytes], bytes]) -> None:
    data, _, (descriptor,) = encode_vector_file([np.array([5, 8])])
    assert read_vector(data, descriptor).tolist() == [5, 8]
    with pytest.raises(DamagedVector):
        read_vector(damage(data), descriptor)
    with pytest.raises(DamagedVector, match="2 rows instead of 3"):
        read_vector(data, {**descriptor, "cardinality": 3})
