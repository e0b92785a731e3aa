"""Defaults of columns in Iceberg's schemas."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import pyarrow as pa
import pytest

from connect.errors import ConnectError
from connectors.spark.tables.iceberg.defaults import default_to_json, default_value
from connectors.spark.tables.iceberg.schema_change import columns_to_add

# From appendix D of Iceberg's specification.
FORMS = [
    (True, pa.bool_(), True),
    (34, pa.int32(), 34),
    (2**40, pa.int64(), 2**40),
    (1.5, pa.float32(), 1.5),
    (0.1, pa.float64(), 0.1),
    (decimal.Decimal("14.20"), pa.decimal128(9, 2), "14.20"),
    (dt.date(2017, 11, 16), pa.date32(), "2017-11-16"),
    (dt.datetime(2017, 11, 16, 22, 31, 8, 123456), pa.timestamp("us"), "2017-11-16T22:31:08.123456"),
    (dt.datetime(2017, 11, 16, 22, 31, 8, 123456, dt.UTC), pa.timestamp("us", "UTC"), "2017-11-16T22:31:08.123456+00:00"),
    ("iceberg", pa.string(), "iceberg"),
    (b"\x00\x01\x02\xff", pa.binary(), "000102ff"),
]


@pytest.mark.parametrize(("value", "type_", "form"), FORMS, ids=str)
def test_defaults_are_written_and_read_as_the_specification_says(value: Any, type_: pa.DataType, form: Any) -> None:
    scalar = pa.scalar(value, type_)
    assert default_to_json(scalar) == form
    schema = columns_to_add({}, {"c": type_}, {"c": scalar}, 3, "table t")
    assert schema["fields"][0]["initial-default"] == form
    assert default_value(form, type_, "c") == scalar


@pytest.mark.parametrize("value", [pa.scalar(float("nan")), pa.scalar([1]), pa.scalar(10**7, pa.int32()).cast(pa.date32())])
def test_values_that_cannot_be_defaults_are_left_out(value: pa.Scalar) -> None:
    assert default_to_json(value) is None


def test_defaults_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(ConnectError, match="column c has the initial default 'x', which cannot be read"):
        default_value("x", pa.int32(), "c")
