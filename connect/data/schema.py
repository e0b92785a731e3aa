"""Schemas, and the builder that creates them step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.data.struct import validate_value
from connect.data.types import Field, Schema, Type
from connect.errors import DataError, SchemaError

__all__ = ["Field", "Schema", "SchemaBuilder", "Type"]


class SchemaBuilder:
    """Builds a schema step by step, like Kafka Connect's builder; ``build()`` returns the immutable result.

    Setting a member twice to different values, or one that the type does not have, raises :class:`SchemaError`.
    """

    def __init__(self, type: Type) -> None:
        self._type = type
        self._members: dict[str, Any] = {}
        self._parameters: dict[str, str] = {}
        self._fields: dict[str, Schema] = {}

    @classmethod
    def int8(cls) -> SchemaBuilder:
        return cls(Type.INT8)

    @classmethod
    def int16(cls) -> SchemaBuilder:
        return cls(Type.INT16)

    @classmethod
    def int32(cls) -> SchemaBuilder:
        return cls(Type.INT32)

    @classmethod
    def int64(cls) -> SchemaBuilder:
        return cls(Type.INT64)

    @classmethod
    def float32(cls) -> SchemaBuilder:
        return cls(Type.FLOAT32)

    @classmethod
    def float64(cls) -> SchemaBuilder:
        return cls(Type.FLOAT64)

    @classmethod
    def boolean(cls) -> SchemaBuilder:
        return cls(Type.BOOLEAN)

    @classmethod
    def string(cls) -> SchemaBuilder:
        return cls(Type.STRING)

    @classmethod
    def bytes(cls) -> SchemaBuilder:
        return cls(Type.BYTES)

    @classmethod
    def struct(cls) -> SchemaBuilder:
        return cls(Type.STRUCT)

    @classmethod
    def array(cls, value_schema: Schema) -> SchemaBuilder:
        return cls(Type.ARRAY)._with_schema("value_schema", "valueSchema", value_schema)

    @classmethod
    def map(cls, key_schema: Schema, value_schema: Schema) -> SchemaBuilder:
        builder = cls(Type.MAP)._with_schema("key_schema", "keySchema", key_schema)
        return builder._with_schema("value_schema", "valueSchema", value_schema)

    def _with_schema(self, member: str, shown: str, schema: Schema | None) -> SchemaBuilder:
        if schema is None:
            raise SchemaError(f"{shown} cannot be null.")
        self._members[member] = schema
        return self

    def _set(self, member: str, value: Any) -> SchemaBuilder:
        present = self._members.get(member)
        if present is not None and present != value:
            raise SchemaError(f"Invalid SchemaBuilder call: {member} has already been set.")
        self._members[member] = value
        return self

    def optional(self) -> SchemaBuilder:
        return self._set("optional", True)

    def required(self) -> SchemaBuilder:
        return self._set("optional", False)

    def default(self, value: Any) -> SchemaBuilder:
        """Sets the default. It must match the members set so far, and the finished schema."""
        self._set("default", value)
        self._check_default()
        return self

    def name(self, name: str) -> SchemaBuilder:
        return self._set("name", name)

    def version(self, version: int) -> SchemaBuilder:
        return self._set("version", version)

    def doc(self, doc: str) -> SchemaBuilder:
        return self._set("doc", doc)

    def parameter(self, key: str, value: str) -> SchemaBuilder:
        """Sets one parameter; a later value replaces an earlier one."""
        self._parameters[key] = value
        return self

    def parameters(self, parameters: Mapping[str, str]) -> SchemaBuilder:
        """Sets several parameters."""
        self._parameters.update(parameters)
        return self

    def field(self, name: str, schema: Schema) -> SchemaBuilder:
        """Appends a field."""
        if self._type is not Type.STRUCT:
            raise SchemaError(f"Cannot create fields on type {self._type.name}")
        if not name:
            raise SchemaError("fieldName cannot be null.")
        if schema is None:
            raise SchemaError(f"fieldSchema for field {name} cannot be null.")
        if name in self._fields:
            raise SchemaError(f"Cannot create field because of field name duplication {name}")
        self._fields[name] = schema
        return self

    def build(self) -> Schema:
        """Returns the finished schema. Raises :class:`SchemaError` when the default does not match it."""
        self._check_default()
        return self._built()

    def _built(self, **changes: Any) -> Schema:
        fields = self._fields.items() if self._type is Type.STRUCT else None
        return Schema(self._type, **{**self._members, "parameters": self._parameters, "fields": fields, **changes})

    def _check_default(self) -> None:
        if "default" in self._members:
            try:
                validate_value(self._built(default=None), self._members["default"])
            except DataError as e:
                raise SchemaError("Invalid default value") from e
