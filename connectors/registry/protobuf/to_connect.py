"""Converts Protobuf schemas to Connect schemas."""

from __future__ import annotations

import re
from dataclasses import dataclass

from google.protobuf.descriptor import Descriptor, FieldDescriptor, OneofDescriptor
from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from connect.data.logical import date_schema, decimal_schema, time_schema, timestamp_schema
from connect.data.schema import Schema, Type
from connect.errors import SchemaError
from connectors.registry.protobuf.config import (
    CONNECT_TYPE,
    DATE_MESSAGE,
    DECIMAL_MESSAGE,
    DECIMAL_PRECISION,
    SUM_UNION,
    TAG,
    TIME_MESSAGE,
    TIMESTAMP_MESSAGE,
    TYPE,
    UNION,
    WRAPPED,
    WRAPPER,
    ProtobufConfig,
)
from connectors.registry.protobuf.files import ProtoSchema
from connectors.registry.protobuf.proto_parser import SCALARS

_MAX_DEPTH = 64
_MAX_PARTS = 100_000
_NAMES = {number: name for name, number in SCALARS.items()}
_TYPES = {
    "float": Type.FLOAT32,
    "double": Type.FLOAT64,
    "bool": Type.BOOLEAN,
    "string": Type.STRING,
    "bytes": Type.BYTES,
    **dict.fromkeys(("int32", "sint32", "sfixed32"), Type.INT32),
    **dict.fromkeys(("uint32", "fixed32", "int64", "uint64", "sint64", "fixed64", "sfixed64"), Type.INT64),
}


@dataclass(frozen=True, slots=True)
class Member:
    """A field with its declaration in the file and its descriptor in the pool."""

    descriptor: FieldDescriptor
    declared: FieldDescriptorProto

    @property
    def is_repeated(self) -> bool:
        return bool(self.declared.label == FieldDescriptorProto.LABEL_REPEATED)

    @property
    def is_map(self) -> bool:
        """Whether the field is a list of entries with key and value."""
        message = self.descriptor.message_type
        if message is None or not self.is_repeated or not message.name.endswith("Entry"):
            return False
        return [f.name for f in message.fields] == ["key", "value"]

    @property
    def in_oneof(self) -> bool:
        """Whether the field is a member of a real oneof, not just optional."""
        return self.declared.HasField("oneof_index") and not self.declared.proto3_optional


def members(message: Descriptor) -> list[Member]:
    """The fields of a message."""
    declared = DescriptorProto()
    message.CopyToProto(declared)
    by_name = {one.name: one for one in declared.field}
    return [Member(one, by_name[one.name]) for one in message.fields]


def is_proto3(message: Descriptor) -> bool:
    declared = FileDescriptorProto()
    message.file.CopyToProto(declared)
    return bool(declared.syntax == "proto3")


def union_field(oneof: OneofDescriptor, options: ProtobufConfig) -> str:
    """The field name for a oneof."""
    return f"{oneof.name}_{oneof.index}" if options.generate_index_for_unions else str(oneof.name)


def real_oneofs(message: Descriptor) -> list[OneofDescriptor]:
    """The oneofs of a message, without synthetic ones for optional fields."""
    real = {one.declared.oneof_index for one in members(message) if one.in_oneof}
    return [oneof for oneof in message.oneofs if oneof.index in real]


def has_presence(member: Member, message: Descriptor, options: ProtobufConfig) -> bool:
    """Whether an unset primitive is read as null."""
    if member.is_repeated or member.in_oneof:
        return False
    optional2 = not is_proto3(message) and member.declared.label == FieldDescriptorProto.LABEL_OPTIONAL
    return bool(member.declared.proto3_optional or (options.optional_for_proto2 and optional2))


def connect_schema(proto: ProtoSchema, message: Descriptor, options: ProtobufConfig, version: int | None = None) -> Schema:
    """Converts a message. Raises SchemaError if Connect has no equivalent."""
    return _ProtobufToConnect(proto, options).message(message, version)


class _ProtobufToConnect:
    def __init__(self, proto: ProtoSchema, options: ProtobufConfig) -> None:
        self._proto = proto
        self._options = options
        self._underway: list[str] = []
        self._parts = 0

    def message(self, message: Descriptor, version: int | None) -> Schema:
        if self._options.wrapper_for_raw_primitives and message.full_name in WRAPPED:
            return Schema(WRAPPED[message.full_name], version=version)
        return self._struct(message, version=version)

    def _struct(self, message: Descriptor, version: int | None = None, optional: bool = False) -> Schema:
        if message.full_name in self._underway:
            raise SchemaError(f"The Protobuf message {message.full_name} contains itself, which a Connect schema cannot")
        if len(self._underway) > _MAX_DEPTH:
            raise SchemaError(f"The Protobuf schema is nested more than {_MAX_DEPTH} levels deep")
        self._underway.append(message.full_name)
        name = message.full_name if self._options.enhanced_protobuf_schema_support else message.name
        fields = self._fields(message)
        self._underway.pop()
        return Schema(Type.STRUCT, name=name, version=version, fields=fields, optional=optional)

    def _fields(self, message: Descriptor) -> list[tuple[str, Schema]]:
        every = members(message)
        fields: list[tuple[str, Schema]] = []
        for oneof in real_oneofs(message):
            inside = [(m.descriptor.name, self._field(m, message)) for m in every if self._is_of(m, oneof)]
            if self._options.flatten_unions:
                fields += inside
            else:
                fields.append((union_field(oneof, self._options), self._union(oneof, inside)))
        fields += [(m.descriptor.name, self._field(m, message)) for m in every if not m.in_oneof]
        return fields

    def _is_of(self, member: Member, oneof: OneofDescriptor) -> bool:
        return member.in_oneof and member.declared.oneof_index == oneof.index

    def _union(self, oneof: OneofDescriptor, fields: list[tuple[str, Schema]]) -> Schema:
        if self._options.generalized_sum_type_support:
            name, parameters = oneof.name, {SUM_UNION: oneof.name}
        else:
            own = oneof.full_name if self._options.enhanced_protobuf_schema_support else oneof.name
            name, parameters = f"{UNION}.{own}", {}
        return Schema(Type.STRUCT, name=name, parameters=parameters, fields=fields, optional=True)

    def _field(self, member: Member, message: Descriptor) -> Schema:
        self._parts += 1
        if self._parts > _MAX_PARTS:
            raise SchemaError(f"The Protobuf schema has more than {_MAX_PARTS} parts once its messages are put in their places")
        try:
            schema = self._element(member)
        except SchemaError as e:
            raise SchemaError(f"field {member.descriptor.name}: {e.message}") from e
        if member.is_repeated and schema.type is not Type.MAP:
            schema = Schema(Type.ARRAY, value_schema=schema.as_optional(), optional=True)
        options, parameters = self._options, dict(schema.parameters or {})
        optional = schema.optional
        if member.in_oneof:
            optional = True
            kind = member.descriptor.message_type
            if options.wrapper_for_nullables and kind is not None and kind.full_name in WRAPPED:
                parameters[WRAPPER] = "true"
        elif options.optional_for_nullables:
            optional2 = not is_proto3(message) and member.declared.label == FieldDescriptorProto.LABEL_OPTIONAL
            optional = optional or member.declared.proto3_optional or optional2
        elif not options.wrapper_for_nullables:
            optional = True
        parameters[TAG] = str(member.descriptor.number)
        return schema.replace(optional=optional, parameters=parameters)

    def _element(self, member: Member) -> Schema:
        """The schema of one element, without attributes of the field."""
        field = member.descriptor
        if field.enum_type is not None:
            return self._enum(field)
        if field.message_type is None:
            return self._scalar(field)
        match field.message_type.full_name:
            case name if name == DECIMAL_MESSAGE:
                return self._decimal(field)
            case name if name == DATE_MESSAGE:
                return date_schema(optional=True)
            case name if name == TIME_MESSAGE:
                return time_schema(optional=True)
            case name if name == TIMESTAMP_MESSAGE:
                return timestamp_schema(optional=True)
        if member.is_map:
            key, value = members(field.message_type)
            return Schema(
                Type.MAP,
                key_schema=self._field(key, field.message_type),
                value_schema=self._field(value, field.message_type),
                name=self._map_name(field.message_type),
                optional=True,
            )
        if field.message_type.full_name in WRAPPED and self._options.wrapper_for_nullables:
            return Schema(WRAPPED[field.message_type.full_name], optional=True)
        return self._struct(field.message_type, optional=True)

    def _map_name(self, entry: Descriptor) -> str:
        name = entry.full_name if self._options.enhanced_protobuf_schema_support else entry.name
        scope, dot, last = name.rpartition(".")
        camel = last.removesuffix("Entry")
        return str(scope + dot) + re.sub(r"(?<!^)(?=[A-Z])", "_", camel).lower()

    def _scalar(self, field: FieldDescriptor) -> Schema:
        name = _NAMES.get(field.type)
        if name is None:
            raise SchemaError("a group, which Connect does not know")
        kind = _TYPES[name]
        if kind is Type.INT32:
            narrow = self._proto.meta.get(field.full_name, {}).get(CONNECT_TYPE)
            if narrow in ("int8", "int16"):
                return Schema(Type.INT8 if narrow == "int8" else Type.INT16)
        plain = name == kind.name.lower() or kind not in (Type.INT32, Type.INT64)
        return Schema(kind, parameters=None if plain else {TYPE: name})

    def _enum(self, field: FieldDescriptor) -> Schema:
        enum, options = field.enum_type, self._options
        parameter = options.enum_parameter
        parameters = {parameter: enum.name, **{f"{parameter}.{v.name}": str(v.number) for v in enum.values}}
        name = enum.full_name if options.enhanced_protobuf_schema_support else enum.name
        return Schema(Type.INT32 if options.int_for_enums else Type.STRING, name=name, parameters=parameters, optional=True)

    def _decimal(self, field: FieldDescriptor) -> Schema:
        meta = self._proto.meta.get(field.full_name, {})
        scale, precision = meta.get("scale", "0"), meta.get("precision")
        schema = decimal_schema(int(scale) if re.fullmatch(r"-?\d{1,9}", scale) else 0, optional=True)
        if precision is None or not precision.isdigit():
            return schema
        return schema.replace(parameters={**(schema.parameters or {}), DECIMAL_PRECISION: precision})
