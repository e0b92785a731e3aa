"""Java class names of values: Apache's error messages, which people search for, contain them."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

from connect.data.logical import FarInstant
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.java.sized_numbers import Float32, Int8, Int16, Int32

_NAMES: tuple[tuple[type, str], ...] = (
    (bool, "java.lang.Boolean"),
    (Int8, "java.lang.Byte"),
    (Int16, "java.lang.Short"),
    (Int32, "java.lang.Integer"),
    (int, "java.lang.Long"),
    (Float32, "java.lang.Float"),
    (float, "java.lang.Double"),
    (str, "java.lang.String"),
    (bytes, "[B"),
    (bytearray, "[B"),
    (memoryview, "java.nio.HeapByteBuffer"),
    (decimal.Decimal, "java.math.BigDecimal"),
    (dt.date, "java.util.Date"),
    (dt.time, "java.util.Date"),
    (FarInstant, "java.util.Date"),
    (Struct, "org.apache.kafka.connect.data.Struct"),
    (list, "java.util.ArrayList"),
    (dict, "java.util.LinkedHashMap"),
)
_NARROW: dict[Type, type[int] | type[float]] = {
    Type.INT8: Int8,
    Type.INT16: Int16,
    Type.INT32: Int32,
    Type.FLOAT32: Float32,
}


def java_class_name(value: Any) -> str:
    """Returns ``java.lang.Long`` for an int and so on; the Python name for a type that Connect does not have."""
    if value is None:
        return "null"
    return next(
        (name for kind, name in _NAMES if isinstance(value, kind)), f"{type(value).__module__}.{type(value).__qualname__}"
    )


def java_class_of(value: Any) -> str:
    """Returns the class as Java prints it: ``class java.lang.Long``."""
    return f"class {java_class_name(value)}"


def java_class_name_under(schema: Schema | None, value: Any) -> str:
    """Returns the class name of a value under a schema, which determines the width of a plain number."""
    if schema is not None and type(value) in (int, float):
        box = _NARROW.get(schema.type)
        if box is not None and isinstance(value, float) is issubclass(box, float):
            return java_class_name(box())
    return java_class_name(value)
