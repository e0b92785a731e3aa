"""Converts Connect schemas to Protobuf schemas."""

from __future__ import annotations

import re

from google.protobuf import wrappers_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from connect.data.logical import DATE, DECIMAL, SCALE_PARAMETER, TIME, TIMESTAMP
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.registry.avro.names import scrub
from connectors.registry.protobuf.config import (
    CONNECT_TYPE,
    DATE_MESSAGE,
    DECIMAL_MESSAGE,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    ENUM,
    SUM_ENUM,
    SUM_UNION,
    TAG,
    TIME_MESSAGE,
    TIMESTAMP_MESSAGE,
    TYPE,
    UNION,
    WRAPPER,
    ProtobufConfig,
    is_union,
)
from connectors.registry.protobuf.proto_parser import SCALARS, ProtoFile, map_entry_name

_MAX_DEPTH = 64
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MESSAGES = {
    DECIMAL: (DECIMAL_MESSAGE, "confluent/type/decimal.proto"),
    DATE: (DATE_MESSAGE, "google/type/date.proto"),
    TIME: (TIME_MESSAGE, "google/type/timeofday.proto"),
    TIMESTAMP: (TIMESTAMP_MESSAGE, "google/protobuf/timestamp.proto"),
}
_WRAPPERS_FILE = "google/protobuf/wrappers.proto"
_SIMPLE = {
    Type.INT8: "int32",
    Type.INT16: "int32",
    Type.INT32: "int32",
    Type.INT64: "int64",
    Type.FLOAT32: "float",
    Type.FLOAT64: "double",
    Type.BOOLEAN: "bool",
    Type.STRING: "string",
    Type.BYTES: "bytes",
}
_WRAPPERS = {
    "int32": "Int32Value", "uint32": "UInt32Value", "fixed32": "UInt32Value", "int64": "Int64Value", "uint64": "UInt64Value",
    "fixed64": "UInt64Value", "float": "FloatValue", "double": "DoubleValue", "bool": "BoolValue", "string": "StringValue",
    "bytes": "BytesValue",
}  # fmt: skip


def proto_file(schema: Schema, options: ProtobufConfig) -> tuple[ProtoFile, list[int]]:
    """Builds the file for a Connect schema; returns it with the path of the message for values. Raises SchemaError."""
    if schema.type in _SIMPLE:
        return _wrapper_file(_SIMPLE[schema.type])
    if schema.type is not Type.STRUCT:
        raise SchemaError(f"Unsupported root schema of type {schema.type.name}: a Protobuf message needs a struct or a primitive")
    return _ConnectToProtobuf(options).file(schema), [0]


def wraps(schema: Schema, options: ProtobufConfig, oneof_member: bool) -> bool:
    """Whether an optional primitive becomes a wrapper message."""
    marked = (schema.parameters or {}).get(WRAPPER, "").lower() == "true"
    return options.wrapper_for_nullables and schema.optional and (not oneof_member or marked)


def proto_name(name: str, what: str, options: ProtobufConfig) -> str:
    """Converts a name to a valid Protobuf name. Raises SchemaError if it is invalid."""
    if options.scrub_invalid_names:
        name = scrub(name)
        name = f"x{name}" if name.startswith("_") else name
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"{what} {name!r} is no name that Protobuf allows (letters, digits and _, no digit first); scrub.invalid.names=true "
            "makes one of it"
        )
    return name


def _wrapper_file(kind: str) -> tuple[ProtoFile, list[int]]:
    made = FileDescriptorProto.FromString(wrappers_pb2.DESCRIPTOR.serialized_pb)
    names = [message.name for message in made.message_type]
    return ProtoFile(made), [names.index(_WRAPPERS[kind])]


class _ConnectToProtobuf:
    def __init__(self, options: ProtobufConfig) -> None:
        self._options = options
        self._made = ProtoFile(FileDescriptorProto(name="schema.proto", syntax="proto3"))
        self._names = 0
        self._known: dict[tuple[str, str], Schema] = {}

    def file(self, schema: Schema) -> ProtoFile:
        package, _, name = self._full_name(schema.name).rpartition(".")
        made = self._made.descriptor
        if package:
            parts = [proto_name(part, "The schema name", self._options) for part in package.split(".")]
            made.package = ".".join(parts)
        self._message(made.message_type.add(), schema, proto_name(name, "The schema name", self._options), made.package, 0)
        return self._made

    def _full_name(self, name: str | None) -> str:
        if name:
            return name
        self._names += 1
        return f"{DEFAULT_NAME}{self._names}"

    def _simple_name(self, name: str | None) -> str:
        return proto_name(self._full_name(name).rpartition(".")[2], "The schema name", self._options)

    def _message(self, made: DescriptorProto, schema: Schema, name: str, scope: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise SchemaError(f"The schema is nested more than {_MAX_DEPTH} levels deep")
        made.name = name
        full = f"{scope}.{name}" if scope else name
        numbers = _numbers(schema)
        optionals: list[FieldDescriptorProto] = []
        for field in schema.fields or ():
            try:
                if is_union(field.schema):
                    self._oneof(made, field.schema, full, numbers, depth)
                    continue
                made_field = self._field(made, field.schema, field.name, next(numbers, 0), full, depth, False)
            except DataError as e:
                raise type(e)(f"field {field.name}: {e.message}") from e
            if made_field.proto3_optional:
                optionals.append(made_field)
        for one in optionals:
            made.oneof_decl.add(name=f"_{one.name}")
            one.oneof_index = len(made.oneof_decl) - 1

    def _oneof(self, made: DescriptorProto, schema: Schema, full: str, numbers: _FieldNumbers, depth: int) -> None:
        name = (schema.parameters or {}).get(SUM_UNION) or (schema.name or UNION).removeprefix(f"{UNION}.")
        made.oneof_decl.add(name=self._simple_name(name))
        index = len(made.oneof_decl) - 1
        for field in schema.fields or ():
            self._field(made, field.schema, field.name, next(numbers, 0), full, depth, True).oneof_index = index

    def _field(
        self, made: DescriptorProto, schema: Schema, name: str, number: int, scope: str, depth: int, oneof_member: bool
    ) -> FieldDescriptorProto:
        options = self._options
        one = made.field.add(name=proto_name(name, "The field name", options), number=number)
        one.label = FieldDescriptorProto.LABEL_OPTIONAL
        if schema.type in (Type.ARRAY, Type.MAP):
            one.label = FieldDescriptorProto.LABEL_REPEATED
        elif options.optional_for_nullables and schema.optional and not oneof_member:
            one.proto3_optional = True
        element = schema.value_schema if schema.type is Type.ARRAY else schema
        if element is None or element.type is Type.ARRAY:
            raise SchemaError("an array directly within an array cannot be written as Protobuf; put a struct between them")
        meta: dict[str, str] = {}
        self._set_type(made, one, element, scope, depth, oneof_member, meta)
        if meta:
            self._made.meta[f"{scope}.{one.name}"] = meta
            self._depend("confluent/meta.proto")
        return one

    def _set_type(
        self,
        made: DescriptorProto,
        one: FieldDescriptorProto,
        schema: Schema,
        scope: str,
        depth: int,
        oneof_member: bool,
        meta: dict[str, str],
    ) -> None:
        parameters = schema.parameters or {}
        if schema.name in _MESSAGES:
            one.type_name, file = _MESSAGES[schema.name]
            self._depend(file)
            if schema.name == DECIMAL:
                pairs = (("precision", DECIMAL_PRECISION), ("scale", SCALE_PARAMETER))
                meta.update({ours: parameters[theirs] for ours, theirs in pairs if theirs in parameters})
        elif schema.type is Type.STRUCT:
            one.type_name = self._nested(made, schema, one.name, scope, depth)
        elif schema.type is Type.MAP:
            one.type_name = self._entry(made, schema, scope, depth)
        elif SUM_ENUM in parameters or ENUM in parameters:
            one.type_name = self._enum(made, parameters)
        else:
            if schema.type in (Type.INT8, Type.INT16):
                meta[CONNECT_TYPE] = schema.type.value
            kind = parameters.get(TYPE, _SIMPLE[schema.type])
            if kind not in SCALARS:
                raise SchemaError(f"the parameter {TYPE} is {kind!r}, which is no scalar type of Protobuf")
            if wraps(schema, self._options, oneof_member):
                one.type_name = f"google.protobuf.{_WRAPPERS.get(kind, 'Int64Value')}"
                self._depend(_WRAPPERS_FILE)
            else:
                one.type = SCALARS[kind]

    def _depend(self, file: str) -> None:
        if file not in self._made.descriptor.dependency:
            self._made.descriptor.dependency.append(file)

    def _nested(self, made: DescriptorProto, schema: Schema, field: str, scope: str, depth: int) -> str:
        name = self._simple_name(schema.name)
        if name == field:
            name += "Message"  # a message cannot have the name of a sibling field
        core = schema.replace(optional=False, parameters=None, doc=None, default=None, version=None)
        known = self._known.get((scope, name))
        if known is not None:
            if known != core:
                raise SchemaError(f"two different schemas have the name {name}; give one of them another (SetSchemaMetadata)")
            return name
        self._known[scope, name] = core
        self._message(made.nested_type.add(), schema, name, scope, depth + 1)
        return name

    def _entry(self, made: DescriptorProto, schema: Schema, scope: str, depth: int) -> str:
        name = map_entry_name(self._simple_name(schema.name))
        if depth > _MAX_DEPTH or schema.key_schema is None or schema.value_schema is None:
            raise SchemaError("a map without the schemas of its keys and values, or nested too deeply")
        core = schema.replace(optional=False, parameters=None, doc=None, default=None, version=None)
        known = self._known.setdefault((scope, name), core)
        if known is not core:
            if known != core:
                raise SchemaError(f"two different maps have the name {name}; give one of their schemas another")
            return name
        entry = made.nested_type.add(name=name)
        full = f"{scope}.{name}"
        self._field(entry, schema.key_schema, "key", 1, full, depth + 1, False)
        self._field(entry, schema.value_schema, "value", 2, full, depth + 1, False)
        for one in entry.field:
            if one.proto3_optional:
                entry.oneof_decl.add(name=f"_{one.name}")
                one.oneof_index = len(entry.oneof_decl) - 1
        return name

    def _enum(self, made: DescriptorProto, parameters: dict[str, str]) -> str:
        parameter = self._options.enum_parameter
        name = parameters.get(parameter)
        if name is None:
            raise SchemaError(f"an enum without the parameter {parameter}, which names it")
        if all(one.name != name for one in made.enum_type):
            enum = made.enum_type.add(name=proto_name(name, "The enum name", self._options))
            for key, number in parameters.items():
                if key.startswith(f"{parameter}."):
                    if not number.lstrip("-").isdigit():
                        raise SchemaError(f"the schema parameter {key} is {number!r}; expected the number of the enum's value")
                    enum.value.add(name=key[len(parameter) + 1 :], number=int(number))
            if len({value.number for value in enum.value}) < len(enum.value):
                enum.options.allow_alias = True
        return name


class _FieldNumbers:
    """Assigns field numbers of a message: those of the schema, else the next free ones."""

    def __init__(self, wanted: list[int | None]) -> None:
        self._wanted = iter(wanted)
        self._used = {number for number in wanted if number is not None}
        self._free = 0

    def __iter__(self) -> _FieldNumbers:
        return self

    def __next__(self) -> int:
        number = next(self._wanted)
        while number is None:
            self._free += 1
            if self._free not in self._used:
                number = self._free
        return number


def _numbers(schema: Schema) -> _FieldNumbers:
    wanted: list[int | None] = []
    for field in schema.fields or ():
        for one in (field.schema.fields or ()) if is_union(field.schema) else (field,):
            text = (one.schema.parameters or {}).get(TAG)
            if text is not None and not text.isdigit():
                raise SchemaError(f"field {one.name}: the schema parameter {TAG} is {text!r}; expected a field number")
            wanted.append(None if text is None else int(text))
    return _FieldNumbers(wanted)
