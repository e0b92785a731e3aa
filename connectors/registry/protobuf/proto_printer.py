"""Prints descriptors as the text of a .proto file."""

from __future__ import annotations

import json
from collections.abc import Mapping

from google.protobuf.descriptor_pb2 import DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto

from connectors.registry.protobuf.proto_parser import SCALARS, ProtoFile

_NAMES = {number: name for name, number in SCALARS.items()}


def proto_text(file: ProtoFile) -> str:
    """Prints a file."""
    made: FileDescriptorProto = file.descriptor
    parts = [f'syntax = "{made.syntax or "proto2"}";\n']
    if made.package:
        parts.append(f"package {made.package};\n")
    imports = [f'import "{name}";\n' for name in made.dependency]
    if imports:
        parts.append("".join(imports))
    parts += [_message(one, file.meta, made.package, made.syntax == "proto3", "") for one in made.message_type]
    parts += [_enum(one, "") for one in made.enum_type]
    return "\n".join(parts)


def _message(made: DescriptorProto, meta: Mapping[str, Mapping[str, str]], scope: str, is_proto3: bool, indent: str) -> str:
    full, inner = f"{scope}.{made.name}" if scope else made.name, indent + "  "
    entries = {one.name: one for one in made.nested_type if one.options.map_entry}
    lines = [f"{indent}message {made.name} {{\n"]
    real = {one.oneof_index for one in made.field if one.HasField("oneof_index") and not one.proto3_optional}
    for one in made.field:
        if one.HasField("oneof_index") and one.oneof_index in real:
            continue
        lines.append(inner + _field(one, meta.get(f"{full}.{one.name}"), is_proto3, entries))
    for index, oneof in enumerate(made.oneof_decl):
        if index in real:
            lines.append(f"{inner}oneof {oneof.name} {{\n")
            members = [one for one in made.field if one.HasField("oneof_index") and one.oneof_index == index]
            lines += [f"{inner}  " + _field(one, meta.get(f"{full}.{one.name}"), True, entries) for one in members]
            lines.append(f"{inner}}}\n")
    for nested in made.nested_type:
        if nested.name not in entries:
            lines.append("\n" + _message(nested, meta, full, is_proto3, inner))
    lines += ["\n" + _enum(one, inner) for one in made.enum_type]
    lines.append(f"{indent}}}\n")
    return "".join(lines)


def _field(
    one: FieldDescriptorProto, meta: Mapping[str, str] | None, is_proto3: bool, entries: Mapping[str, DescriptorProto]
) -> str:
    kind = _kind(one)
    entry = entries.get(kind.rpartition(".")[2])
    label = ""
    if entry is not None:
        kind = f"map<{_kind(entry.field[0])}, {_kind(entry.field[1])}>"
    elif one.label == FieldDescriptorProto.LABEL_REPEATED:
        label = "repeated "
    elif one.proto3_optional or (not is_proto3 and one.label == FieldDescriptorProto.LABEL_OPTIONAL):
        label = "optional "
    elif one.label == FieldDescriptorProto.LABEL_REQUIRED:
        label = "required "
    options = ""
    if meta:
        pairs = ", ".join(f"{{ key: {json.dumps(k)}, value: {json.dumps(v)} }}" for k, v in meta.items())
        options = f" [(confluent.field_meta) = {{ params: [{pairs}] }}]"
    return f"{label}{kind} {one.name} = {one.number}{options};\n"


def _kind(one: FieldDescriptorProto) -> str:
    return one.type_name if one.type_name else _NAMES[one.type]


def _enum(made: EnumDescriptorProto, indent: str) -> str:
    alias = f"{indent}  option allow_alias = true;\n" if made.options.allow_alias else ""
    values = "".join(f"{indent}  {value.name} = {value.number};\n" for value in made.value)
    return f"{indent}enum {made.name} {{\n{alias}{values}{indent}}}\n"
