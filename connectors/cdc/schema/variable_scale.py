"""Decimals of any scale, as structs of scale and unscaled value."""

from __future__ import annotations

import decimal

from connect.data.logical import int_to_bytes
from connect.data.schema import Schema, SchemaBuilder
from connect.data.struct import Struct

VARIABLE_SCALE = (
    SchemaBuilder.struct()
    .name("io.debezium.data.VariableScaleDecimal")
    .version(1)
    .doc("Variable scaled decimal")
    .field("scale", Schema.INT32)
    .field("value", Schema.BYTES)
    .build()
)


def variable_scale_struct(schema: Schema, value: decimal.Decimal) -> Struct:
    """The struct of a finite decimal; ``schema`` is VARIABLE_SCALE or one for a field."""
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    unscaled = int(decimal.Decimal((sign, digits, 0)))  # int(str) is limited to 4,300 digits
    return Struct(schema, [-exponent, int_to_bytes(unscaled)])
