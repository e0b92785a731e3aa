"""Structs of one schema stored as columns, for converters that write column by column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

from connect.data.schema import Schema
from connect.data.struct import Struct


class StructColumns(Sequence[Struct]):
    """A sequence of structs that stores its values by field. Each access creates a struct.

    ``columns`` has one sequence per field of the schema, in its order; each has ``size`` values. Like Struct, it checks nothing.
    """

    __slots__ = ("columns", "schema", "size")

    def __init__(self, schema: Schema, columns: Sequence[Sequence[Any]], size: int) -> None:
        self.schema = schema
        self.columns = columns
        self.size = size

    def __len__(self) -> int:
        return self.size

    @overload
    def __getitem__(self, index: int) -> Struct: ...
    @overload
    def __getitem__(self, index: slice) -> StructColumns: ...
    def __getitem__(self, index: int | slice) -> Struct | StructColumns:
        if isinstance(index, slice):
            return StructColumns(self.schema, [column[index] for column in self.columns], len(range(self.size)[index]))
        row = range(self.size)[index]
        return Struct(self.schema, [column[row] for column in self.columns])

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Struct) and any(struct == value for struct in self)

    def __iter__(self) -> Iterator[Struct]:
        schema = self.schema
        if not self.columns:
            return iter([Struct(schema, []) for _ in range(self.size)])
        return (Struct(schema, list(values)) for values in zip(*self.columns, strict=True))
