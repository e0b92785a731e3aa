"""Custom converters as users write them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from connect import (
    ColumnConversion,
    ConfigDef,
    ConfigType,
    CustomConverter,
    RelationalColumn,
    Schema,
    SchemaBuilder,
    Struct,
    Type,
)
from connect.record import ErrantSourceRecord, SourceRecord

AMOUNT = SchemaBuilder.struct().name("shop.Amount").field("units", Schema.INT64).field("cents", Schema.INT32).build()


class Cents(CustomConverter):
    """Emits the columns of a name in cents."""

    def __init__(self) -> None:
        self._column = "price"

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef().define("column", ConfigType.STRING, "price", doc="Name of the column.")

    def configure(self, configs: Mapping[str, str]) -> None:
        self._column = self.config_def().parse(configs)["column"]

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        return ColumnConversion(Schema.INT64, cents) if column.name == self._column else None


def cents(value: Any) -> int:
    if value > 1_000_000:
        raise LookupError("too expensive")
    return int(value * 100)


class Amounts(CustomConverter):
    """Emits columns of decimals as structs."""

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        return ColumnConversion(AMOUNT, _amount) if column.schema.name == "org.apache.kafka.connect.data.Decimal" else None


def _amount(value: Decimal) -> Struct:
    units, rest = divmod(int(value * 100), 100)
    return Struct(AMOUNT, [units, rest])


TEXT = SchemaBuilder.struct().name("shop.Text").field("text", Schema.STRING).field("size", Schema.INT32).build()


class Sizes(CustomConverter):
    """Emits the columns ``note`` with their size in bytes."""

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        if column.name != "note":
            return None
        return ColumnConversion(TEXT, lambda text: Struct(TEXT, [text, len(text.encode())]))


class Anything(CustomConverter):
    """Converts columns of any table by the types of their fields."""

    def converter_for(self, column: RelationalColumn) -> ColumnConversion | None:
        match column.schema.type:
            case Type.INT64:
                return ColumnConversion(Schema.STRING, lambda number: f'"{number}\t\u20ac"')
            case Type.STRING if column.schema.name is None:
                return ColumnConversion(Schema.STRING, lambda text: text[::-1])
            case Type.BOOLEAN:
                return ColumnConversion(Schema.INT8, int)
            case Type.FLOAT64:
                return ColumnConversion(SchemaBuilder.array(Schema.FLOAT64).build(), lambda number: [number, number])
            case Type.INT16:
                return ColumnConversion(TEXT, lambda number: Struct(TEXT, [str(number), number]))
            case Type.BYTES if column.schema.name is None:
                return ColumnConversion(Schema.BYTES, lambda data: bytes(reversed(data)))
        return None


class Broken(CustomConverter):
    """Fails in every method that a configuration chooses."""

    def configure(self, configs: Mapping[str, str]) -> None:
        self._mode = configs.get("mode", "")
        if self._mode == "configure":
            raise RuntimeError("no network")

    def converter_for(self, column: RelationalColumn) -> Any:
        match self._mode:
            case "choose":
                raise KeyError(column.name)
            case "nothing":
                return "INT64"
            case "result":
                return ColumnConversion(Schema.INT64, str)
        return None


def check_rejected_prices(found: Sequence[SourceRecord], table: str, mode: str | None) -> None:
    """Checks the rows of a snapshot, and of the stream, with the prices 1, 2000000 (too expensive for :class:`Cents`), and 3."""
    if mode == "warn":
        assert [record.value["after"]["price"] for record in found] == [100, None, 300] * 2
        return
    errant = [record for record in found if isinstance(record, ErrantSourceRecord)]
    assert [record.value["after"]["price"] for record in found if record not in errant] == [100, 300] * 2
    assert len(errant) == 2
    for record in errant:
        text = str(record.error)
        assert f"column {table}.price, converter cents: " in text
        assert f"too expensive (in function {__name__}:cents, " in text
