"""Custom converters replace schemas, values, defaults, and keys of the columns that they choose."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from connect.change_events.custom_converters import ColumnConversion, CustomConverter, RelationalColumn
from connect.data.schema import Schema, Type
from connect.data.struct import Struct
from connect.errors import DataError
from connectors.cdc.config.converter_keys import parse_converters
from connectors.cdc.schema.column_type import ColumnType
from connectors.cdc.schema.custom_conversion import CustomConversion, find_conversion
from connectors.cdc.schema.filters import Filters
from connectors.postgres.config import parse_config
from connectors.postgres.schema.catalog import CapturedColumn, CapturedTable
from connectors.postgres.schema.row_decoder import TableRows
from connectors.postgres.types.catalog_type import CatalogType
from tests.support.custom_converters import AMOUNT

_CENTS = {"converters": "c", "c.type": "tests.support.custom_converters:Cents"}
_DECIMAL = Schema(Type.BYTES, name="org.apache.kafka.connect.data.Decimal", version=1, parameters={"scale": "2"})
_BASE = {"topic.prefix": "p", "database.hostname": "h", "database.user": "u", "database.dbname": "d"}
_TYPES = {
    23: CatalogType(23, "pg_catalog", "int4", "b", 0, 0, -1),
    25: CatalogType(25, "pg_catalog", "text", "b", 0, 0, -1),
}


def converted(
    base: ColumnType, config: dict[str, str], name: str = "price", schema: Schema | None = None
) -> CustomConversion | None:
    """What the converters of a configuration make of a column."""
    schema = base.schema if schema is None else schema
    column = RelationalColumn(name, "public.t", "numeric", 8, 2, schema)
    return find_conversion(parse_converters(config), column, replace(base, schema=schema))


def required(base: ColumnType, config: dict[str, str], **more: Any) -> CustomConversion:
    found = converted(base, config, **more)
    assert found is not None
    return found


def decimals(**more: Any) -> ColumnType:
    return ColumnType(_DECIMAL.replace(**more), Decimal, Decimal("0.00"), Decimal("-1"))


def test_schema_value_default_and_documentation_of_a_chosen_column_are_converted() -> None:
    base = decimals(optional=True, default=Decimal("1.50"), doc="net")
    found = required(base, _CENTS)
    assert found.schema == Schema(Type.INT64, optional=True, default=150, doc="net")
    assert found.type_of(base).decode("2.25") == 225
    assert converted(base, _CENTS, name="other") is None


def test_first_converter_that_chooses_a_column_applies_and_each_has_its_keys() -> None:
    config = {
        "converters": "a, b,c",
        "a.type": "tests.support.custom_converters:Cents",
        "a.column": "other",
        "b.type": "tests.support.custom_converters:Amounts",
        **{key: value for key, value in _CENTS.items() if key != "converters"},
    }
    assert required(decimals(), config).schema.name == "shop.Amount"
    assert required(decimals(), config, name="other").schema == Schema.INT64
    assert required(decimals(), {**config, "converters": "c,b"}).schema == Schema.INT64


def test_structs_have_the_schema_of_their_field() -> None:
    config = {"converters": "a", "a.type": "tests.support.custom_converters:Amounts"}
    base = decimals(optional=True)
    mapped = required(base, config).type_of(base)
    parameters = mapped.schema.replace(parameters={"x": "y"})
    for schema, type_ in ((mapped.schema, mapped), (parameters, mapped.under(parameters))):
        value = type_.decode("2.25")
        assert value == Struct(schema, [2, 25])
        assert value.schema is schema
        value.validate()
    assert required(decimals(), config).type_of(decimals()).zero == Struct(AMOUNT, [0, 0])


def test_nulls_that_a_type_decodes_stay_nulls() -> None:
    base = ColumnType(_DECIMAL.as_optional(), lambda text: None, None)
    assert required(base, _CENTS).type_of(base).decode("0000-00-00") is None


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_CENTS, r"column public.t.price, converter c: .*too expensive.* \(in function .*:cents, .*converters.py, line \d+\)"),
        ({"converters": "b", "b.type": "tests.support.custom_converters:Broken", "b.mode": "result"},
         "column public.t.price, converter b: Invalid Python object for schema with type INT64: str"),
    ],
)  # fmt: skip
def test_failing_functions_and_wrong_results_are_errors_of_the_value(config: dict[str, str], message: str) -> None:
    base = decimals()
    mapped = required(base, config).type_of(base)
    with pytest.raises(DataError, match=message):
        mapped.decode("2000000")


@pytest.mark.parametrize(("mode", "message"), [("choose", "KeyError: 'price'"), ("nothing", "returned a value of type str")])
def test_converters_that_fail_to_choose_name_column_and_converter(mode: str, message: str) -> None:
    config = {"converters": "b", "b.type": "tests.support.custom_converters:Broken", "b.mode": mode}
    with pytest.raises(DataError, match=f"column public.t.price, converter b: .*{message}"):
        converted(decimals(), config)


def test_default_that_cannot_be_converted_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    assert required(decimals(default=Decimal(2_000_000)), _CENTS).schema == Schema.INT64
    assert "the default of public.t.price is left out of its schema" in caplog.text


class _Strict(CustomConverter):
    """Accepts only values above 0."""

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        schema = AMOUNT if column.name == "struct" else Schema.FLOAT32
        return ColumnConversion(schema, lambda value: 1.0 / value)


def test_zero_of_the_schema_stands_for_one_that_the_function_rejects() -> None:
    config = {"converters": "s", "s.type": f"{__name__}:_Strict"}
    assert required(decimals(), config).zero == 0.0
    with pytest.raises(DataError, match="the function must accept Decimal"):
        required(decimals(), config, name="struct")
    assert required(decimals(), config, name="struct", schema=_DECIMAL.as_optional()).zero is None


class _Length(CustomConverter):
    """Emits texts as their lengths; in the key as texts."""

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        if column.type_name != "text":
            return None
        if column.name == "k":
            return ColumnConversion(Schema.STRING, lambda value: str(len(value)))
        return ColumnConversion(Schema.INT32, len)


def table(*columns: CapturedColumn, key: tuple[str, ...] = (), **keys: str) -> TableRows:
    config = {
        "converters": "l",
        "l.type": f"{__name__}:_Length",
        **{name.replace("_", "."): value for name, value in keys.items()},
    }
    settings = parse_config({**_BASE, **config})
    captured = CapturedTable(1, "public", "t", columns, key, "d", "r", -1)
    return TableRows(captured, _TYPES, settings, Filters(settings.capture))


def decode(rows: TableRows, *values: str | None) -> list[Any]:
    parts = (b"n" if v is None else b"t" + len(v.encode()).to_bytes(4, "big") + v.encode() for v in values)
    return rows.decode_new(b"".join(parts) + b"\0\0\0\0", 0)


def test_rows_and_keys_of_a_table_are_converted() -> None:
    k = CapturedColumn("k", 25, -1, True, None)
    rows = table(k, CapturedColumn("note", 25, -1, False, "'abc'::text"), CapturedColumn("n", 23, -1, True, None), key=("k",))
    assert rows.schemas.key is not None
    assert [field.schema for field in rows.schemas.key.fields or ()] == [Schema.STRING]
    assert rows.schemas.value.fields is not None
    assert rows.schemas.value.fields[1].schema == Schema(Type.INT32, optional=True, default=3)
    assert decode(rows, "four", "ab", "7") == ["4", 2, 7]
    assert decode(rows, "four", None, "7") == ["4", None, 7]
    # Placeholders of unavailable values are texts; a number has none.
    assert rows.columns[0].type.placeholder == "__debezium_unavailable_value"
    assert rows.columns[1].type.placeholder is None


def test_masks_apply_to_converted_texts_and_reject_other_values() -> None:
    k = CapturedColumn("k", 25, -1, True, None)
    rows = table(k, column_truncate_to_1_chars="public.t.k")
    assert decode(rows, "twelve chars") == ["1"]
    assert rows.columns[0].schema.parameters == {"truncateLength": "1"}
    with pytest.raises(DataError, match=r"column public\.t\.note is masked, but its custom converter makes it INT32"):
        table(CapturedColumn("note", 25, -1, False, None), column_mask_with_3_chars="public.t.note")
