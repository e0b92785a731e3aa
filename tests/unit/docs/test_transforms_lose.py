"""docs/compatibility.md, section Transformations."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest

from connect.data.logical import decimal_schema
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct
from connect.plugins import Plugins
from connect.record import SourceRecord


def _value(name: str, config: dict[str, str], schema: Schema | None, value: Any) -> Any:
    transformation = Plugins.discover().new_transformation(f"org.apache.kafka.connect.transforms.{name}")
    transformation.configure(config)
    changed = transformation.apply(SourceRecord({}, {}, "t", value_schema=schema, value=value))
    assert changed is not None
    return changed.value


@pytest.mark.parametrize(
    ("schema", "value", "target", "expected"),
    [
        (Schema.FLOAT64, 300.7, "int8", 44),
        (Schema.FLOAT64, float("nan"), "int8", 0),
        (Schema.FLOAT64, 1e30, "int64", (1 << 63) - 1),
        (Schema.STRING, "yes", "boolean", False),
    ],
)
def test_cast(schema: Schema, value: object, target: str, expected: object) -> None:
    assert _value("Cast$Value", {"spec": target}, schema, value) == expected


def test_mask_field_writes_a_decimal_with_scale_0() -> None:
    schema = SchemaBuilder.struct().field("d", decimal_schema(2)).build()
    masked = _value("MaskField$Value", {"fields": "d"}, schema, Struct(schema, [Decimal("1.25")]))
    assert masked.get("d").as_tuple().exponent == 0


def test_timestamp_converter_has_milliseconds() -> None:
    instant = dt.datetime(2024, 1, 1, 0, 0, 0, 123456, tzinfo=dt.UTC)
    config = {"target.type": "unix", "unix.precision": "microseconds"}
    assert _value("TimestampConverter$Value", config, None, instant) == 1_704_067_200_123_000
