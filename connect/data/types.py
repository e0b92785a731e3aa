"""Schemas: Connect's types, immutable and cheap to compare.

Schemas are compared by identity first, and converters and transformations cache what they compile by schema object. Build a
schema once and reuse it. Source of the rules: Kafka Connect's ``org.apache.kafka.connect.data`` (KIP-26).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any, ClassVar

from connect.errors import SchemaError


class Type(Enum):
    """The types of values. ``value`` is the name in JSON schemas (``float`` is float32, ``double`` is float64)."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        return self not in (Type.ARRAY, Type.MAP, Type.STRUCT)


INT_RANGES: dict[Type, tuple[int, int]] = {
    Type.INT8: (-(1 << 7), (1 << 7) - 1),
    Type.INT16: (-(1 << 15), (1 << 15) - 1),
    Type.INT32: (-(1 << 31), (1 << 31) - 1),
    Type.INT64: (-(1 << 63), (1 << 63) - 1),
}
"""The smallest and the largest value of each integer type."""


class Field:
    """A field of a struct schema: its name, position, and schema."""

    __slots__ = ("index", "name", "schema")

    def __init__(self, name: str, index: int, schema: Schema) -> None:
        self.name = name
        self.index = index
        self.schema = schema

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Field):
            return NotImplemented
        return self.name == other.name and self.index == other.index and self.schema == other.schema

    def __hash__(self) -> int:
        return hash((self.name, self.index))

    def __repr__(self) -> str:
        return f"Field(name={self.name!r}, index={self.index}, schema={self.schema!r})"


class Schema:
    """An immutable schema.

    ``fields`` is a tuple for structs and None otherwise; ``key_schema`` is set for maps, ``value_schema`` for maps and arrays.
    ``parameters`` is None or a dict of str to str that must not be modified. ``default`` is a value of this schema or None.
    Values are int, float, bool, str, bytes, list, dict, or :class:`connect.data.Struct`; for logical types see
    :mod:`connect.data.logical`.
    """

    __slots__ = (
        "_hash",
        "_index",
        "default",
        "doc",
        "fields",
        "key_schema",
        "name",
        "optional",
        "parameters",
        "type",
        "value_schema",
        "version",
    )

    INT8: ClassVar[Schema]
    INT16: ClassVar[Schema]
    INT32: ClassVar[Schema]
    INT64: ClassVar[Schema]
    FLOAT32: ClassVar[Schema]
    FLOAT64: ClassVar[Schema]
    BOOLEAN: ClassVar[Schema]
    STRING: ClassVar[Schema]
    BYTES: ClassVar[Schema]
    OPTIONAL_INT8: ClassVar[Schema]
    OPTIONAL_INT16: ClassVar[Schema]
    OPTIONAL_INT32: ClassVar[Schema]
    OPTIONAL_INT64: ClassVar[Schema]
    OPTIONAL_FLOAT32: ClassVar[Schema]
    OPTIONAL_FLOAT64: ClassVar[Schema]
    OPTIONAL_BOOLEAN: ClassVar[Schema]
    OPTIONAL_STRING: ClassVar[Schema]
    OPTIONAL_BYTES: ClassVar[Schema]

    def __init__(
        self,
        type: Type,
        *,
        optional: bool = False,
        default: Any = None,
        name: str | None = None,
        version: int | None = None,
        doc: str | None = None,
        parameters: Mapping[str, str] | None = None,
        fields: Iterable[tuple[str, Schema]] | None = None,
        key_schema: Schema | None = None,
        value_schema: Schema | None = None,
    ) -> None:
        self.type = type
        self.optional = optional
        self.default = default
        self.name = name
        self.version = version
        self.doc = doc
        self.parameters: dict[str, str] | None = dict(parameters) if parameters else None
        self.key_schema = key_schema
        self.value_schema = value_schema
        self.fields: tuple[Field, ...] | None = None
        self._index: dict[str, int] = {}
        self._hash: int | None = None
        if type is Type.STRUCT:
            self.fields = tuple(Field(n, i, s) for i, (n, s) in enumerate(fields or ()))
            self._index = {f.name: f.index for f in self.fields}
            if len(self._index) != len(self.fields):
                twice = next(f.name for f in self.fields if self._index[f.name] != f.index)
                raise SchemaError(f"Cannot create field because of field name duplication {twice}")
        elif fields is not None:
            raise SchemaError(f"Cannot create fields on type {type.value}")

    def field(self, name: str) -> Field | None:
        """Returns the field of that name, or None. Only structs have fields."""
        index = self._index.get(name)
        return None if index is None or self.fields is None else self.fields[index]

    def index_of(self, name: str) -> int | None:
        """Returns the position of the field in a struct's values, or None."""
        return self._index.get(name)

    @property
    def field_names(self) -> tuple[str, ...]:
        return tuple(f.name for f in self.fields or ())

    def as_optional(self) -> Schema:
        """Returns an optional copy of this schema, or itself if it is optional."""
        return self if self.optional else self.replace(optional=True)

    def replace(self, **changes: Any) -> Schema:
        """Returns a copy with some members changed; the keywords are the constructor's."""
        members: dict[str, Any] = {
            "optional": self.optional,
            "default": self.default,
            "name": self.name,
            "version": self.version,
            "doc": self.doc,
            "parameters": self.parameters,
            "key_schema": self.key_schema,
            "value_schema": self.value_schema,
        }
        if self.fields is not None:
            members["fields"] = [(f.name, f.schema) for f in self.fields]
        members.update(changes)
        return Schema(members.pop("type", self.type), **members)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Schema):
            return NotImplemented
        return (
            self.type is other.type
            and self.optional == other.optional
            and self.name == other.name
            and self.version == other.version
            and self.doc == other.doc
            and self.parameters == other.parameters
            and self.default == other.default
            and self.key_schema == other.key_schema
            and self.value_schema == other.value_schema
            and self.fields == other.fields
        )

    def __hash__(self) -> int:
        if self._hash is None:
            fields = tuple((f.name, hash(f.schema)) for f in self.fields) if self.fields is not None else None
            self._hash = hash((self.type, self.optional, self.name, self.version, fields, self.key_schema, self.value_schema))
        return self._hash

    def __repr__(self) -> str:
        return f"Schema{{{self.type.name}}}" if self.name is None else f"Schema{{{self.name}:{self.type.name}}}"


for _type in Type:
    if _type.is_primitive:
        setattr(Schema, _type.name, Schema(_type))
        setattr(Schema, f"OPTIONAL_{_type.name}", Schema(_type, optional=True))
