"""Protobuf schemas with all they import, as descriptors."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf import (
    any_pb2,
    api_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    source_context_pb2,
    struct_pb2,
    timestamp_pb2,
    type_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from connect.errors import DataError, SchemaError
from connectors.registry.protobuf.proto_parser import ProtoFile, parse_proto

_GOOGLE = (
    any_pb2, source_context_pb2, type_pb2, api_pb2, descriptor_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2,
    timestamp_pb2, wrappers_pb2,
)  # fmt: skip
_OTHERS = {
    "google/type/date.proto": 'syntax = "proto3"; package google.type; '
    "message Date {int32 year = 1; int32 month = 2; int32 day = 3;}",
    "google/type/timeofday.proto": 'syntax = "proto3"; package google.type; '
    "message TimeOfDay {int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4;}",
    "confluent/meta.proto": 'syntax = "proto3"; package confluent; '
    "message Meta {string doc = 1; map<string, string> params = 2; repeated string tags = 3;}",
    "confluent/type/decimal.proto": 'syntax = "proto3"; package confluent.type; '
    "message Decimal {bytes value = 1; uint32 precision = 2; int32 scale = 3;}",
}
"""Files that any schema may import without a reference to them."""


_BASE64 = re.compile(r"[A-Za-z0-9+/]{8,}={0,2}")
_META = parse_proto(
    "meta.proto",
    'syntax = "proto3"; message Options { message Entry { string key = 1; string value = 2; } '
    "message Meta { repeated Entry params = 2; } Meta field_meta = 1088; }",
).descriptor.message_type[0]


@dataclass(frozen=True, slots=True)
class ProtoSchema:
    """A loaded schema. ``file`` is its own file; ``meta`` has the parameters of fields by full name."""

    pool: descriptor_pool.DescriptorPool
    file: FileDescriptorProto
    meta: Mapping[str, Mapping[str, str]]

    def message(self, path: list[int]) -> Descriptor:
        """Finds a message by its path: its index in the file, then the index in that message, and so on. Raises DataError."""
        names: list[str] = [self.file.package] if self.file.package else []
        messages: Any = self.file.message_type
        for index in path:
            if not 0 <= index < len(messages):
                raise DataError(f"the schema has no message at {path}, the path in the data")
            names.append(messages[index].name)
            messages = messages[index].nested_type
        return self.pool.FindMessageTypeByName(".".join(names))


def proto_schema(text: str, referenced: Mapping[str, str]) -> ProtoSchema:
    """The schema with the files it refers to, by the names it imports them by. Raises SchemaError."""
    parsed = {name: _file(name, other) for name, other in referenced.items()}
    return of_file(_file("schema.proto", text), parsed)


def _file(name: str, text: str) -> ProtoFile:
    """Parses a schema: .proto text, or a descriptor in base64, which some clients register and some registries store."""
    if _BASE64.fullmatch(text):
        try:
            descriptor = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except (ValueError, DecodeError) as e:
            raise SchemaError(f"The Protobuf schema {name} is neither text nor a descriptor in base 64: {e}") from e
        descriptor.name = name
        return ProtoFile(descriptor, _meta(descriptor))
    return parse_proto(name, text)


def _meta(descriptor: FileDescriptorProto) -> dict[str, dict[str, str]]:
    """The parameters of fields, which are in an extension of their options that the library does not know."""
    found: dict[str, dict[str, str]] = {}
    made = ProtoFile(FileDescriptorProto(name="meta.proto", syntax="proto3", message_type=[_META]))
    reader: Any = GetMessageClass(of_file(made).message([0]))

    def collect(messages: Any, scope: str) -> None:
        for message in messages:
            full = f"{scope}.{message.name}" if scope else message.name
            for one in message.field:
                parameters = reader.FromString(one.options.SerializeToString()).field_meta.params
                if parameters:
                    found[f"{full}.{one.name}"] = {entry.key: entry.value for entry in parameters}
            collect(message.nested_type, full)

    collect(descriptor.message_type, descriptor.package)
    return found


def of_file(own: ProtoFile, imported: Mapping[str, ProtoFile] | None = None) -> ProtoSchema:
    """Loads a parsed or generated file. Raises SchemaError."""
    known = {one.DESCRIPTOR.name: one.DESCRIPTOR.serialized_pb for one in _GOOGLE}
    pool = descriptor_pool.DescriptorPool()
    meta: dict[str, Mapping[str, str]] = {}
    done: set[str] = set()
    files = dict(imported or {})

    def add(file: ProtoFile, underway: tuple[str, ...]) -> None:
        name = file.descriptor.name
        if name in underway:
            raise SchemaError(f"The Protobuf schema {name} imports itself")
        for dependency in file.descriptor.dependency:
            if dependency in done:
                continue
            if dependency in files:
                add(files[dependency], (*underway, name))
            elif dependency in known:
                _add_google(dependency)
            elif dependency in _OTHERS:
                add(parse_proto(dependency, _OTHERS[dependency]), (*underway, name))
            else:
                raise SchemaError(
                    f"The Protobuf schema imports {dependency}, which is none of its references ({', '.join(files) or 'none'})"
                )
        _add(file.descriptor.SerializeToString(), name)
        meta.update(file.meta)
        done.add(name)

    def _add_google(name: str) -> None:
        if name in done:
            return
        descriptor = FileDescriptorProto.FromString(known[name])
        for dependency in descriptor.dependency:
            _add_google(dependency)
        _add(known[name], name)
        done.add(name)

    def _add(data: bytes, name: str) -> None:
        try:
            pool.AddSerializedFile(data)
        except (TypeError, ValueError) as e:
            raise SchemaError(f"The Protobuf schema {name} is not valid: {e}") from e

    add(own, ())
    return ProtoSchema(pool, own.descriptor, meta)
