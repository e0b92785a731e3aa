"""Cases of values.jsonl: one call of a method of ``Values``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from connect.data import values_conversion as conversion
from connect.data.values import convert_to_string, infer_schema, parse_string
from connect.errors import ConnectError
from connect.record_format import data_from_json, data_to_json, payload_to_json, schema_to_json
from tests.conformance.compare import comparable, comparable_data, expected_error, raised_error

CONVERSIONS: dict[str, Callable[..., Any]] = {
    "convertToBoolean": conversion.convert_to_boolean,
    "convertToByte": conversion.convert_to_byte,
    "convertToShort": conversion.convert_to_short,
    "convertToInteger": conversion.convert_to_integer,
    "convertToLong": conversion.convert_to_long,
    "convertToFloat": conversion.convert_to_float,
    "convertToDouble": conversion.convert_to_double,
    "convertToDecimal": conversion.convert_to_decimal,
    "convertToString": convert_to_string,
    "convertToList": conversion.convert_to_list,
    "convertToMap": conversion.convert_to_map,
    "convertToStruct": conversion.convert_to_struct,
    "convertToDate": conversion.convert_to_date,
    "convertToTime": conversion.convert_to_time,
    "convertToTimestamp": conversion.convert_to_timestamp,
}


def matches(case: dict[str, Any]) -> bool:
    return (case.get("op") in CONVERSIONS or case.get("op") in ("parseString", "inferSchema")) and "class" not in case


def run(case: dict[str, Any]) -> tuple[Any, Any]:
    expected = case["expected"]
    try:
        if case["op"] == "parseString":
            return comparable_data(expected), comparable_data(data_to_json(*parse_string(case["input"])))
        given = data_from_json(case["input"])
        if case["op"] == "inferSchema":
            return expected, schema_to_json(infer_schema(given.value))
        extra = [case["scale"]] if "scale" in case else []
        actual = CONVERSIONS[case["op"]](given.schema, given.value, *extra)
        return comparable(expected), comparable(payload_to_json(None, actual))
    except ConnectError as e:
        return expected_error(expected), raised_error(e, expected)
