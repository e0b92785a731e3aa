"""Rows of append tables."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from connectors.spark.plan.projection import image_with_keys
from tests.unit.connectors.spark.delivery.fakes import changes


def test_a_key_fills_in_only_rows_that_may_have_no_image() -> None:
    """A changelog is what append writes, although its records are decoded with their keys."""
    image = pa.table({"id": [1, 2, None, None], "tenant": [None, "y", None, "z"]})
    keys = pa.table({"id": [1, 2, 3, 4], "tenant": ["x"] * 4, "only": ["k"] * 4})
    found = image_with_keys(replace(changes([0, 1, 2, 3], ops=["c", None, "tombstone", "d"]), image=image, keys=keys))
    assert found.image.to_pylist() == [
        {"id": 1, "tenant": None, "only": None},
        {"id": 2, "tenant": "y", "only": None},
        {"id": 3, "tenant": "x", "only": "k"},
        {"id": 4, "tenant": "z", "only": "k"},
    ]


def test_a_key_adds_no_column_to_rows_that_have_an_image() -> None:
    keys = pa.table({"id": [1, 2], "only": ["k"] * 2})
    found = image_with_keys(replace(changes([0, 1], ops=["c", None]), keys=keys))
    assert found.image.column_names == ["id"]
