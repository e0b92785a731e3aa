"""ProtobufConverter: Protobuf with its schemas in a registry. ``io.confluent.connect.protobuf.ProtobufConverter``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError, EncodeError
from google.protobuf.message_factory import GetMessageClass

from connect.config.definition import ConfigDef
from connect.data.schema import Schema
from connect.errors import DataError
from connect.record import SchemaAndValue
from connectors.registry.client import RegisteredSchema
from connectors.registry.converter import Decoder, Encoder, RegistryConverter, WriterSchema
from connectors.registry.protobuf.config import CONFIG, ProtobufConfig, parse_protobuf_config
from connectors.registry.protobuf.decode import compile_reader
from connectors.registry.protobuf.encode import compile_filler
from connectors.registry.protobuf.files import ProtoSchema, of_file, proto_schema
from connectors.registry.protobuf.from_connect import proto_file
from connectors.registry.protobuf.proto_printer import proto_text
from connectors.registry.protobuf.to_connect import connect_schema
from connectors.registry.varint import read_number, write_long

_MAX_PATH = 64


class ProtobufConverter(RegistryConverter):
    """Converts between Protobuf data and Connect values, with schemas in a registry."""

    schema_type = "PROTOBUF"
    format_name = "Protobuf"

    def __init__(self) -> None:
        super().__init__()
        self._options = ProtobufConfig()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def _configure_format(self, values: Mapping[str, Any], strict: bool) -> None:
        self._options = parse_protobuf_config(values, strict)

    def _describe(self, schema: Schema | None, topic: str) -> WriterSchema:
        if schema is None:
            raise DataError("data without a schema cannot be written as Protobuf; JsonConverter writes it")
        file, path = proto_file(schema, self._options)
        name = file.descriptor.message_type[path[0]].name
        full = f"{file.descriptor.package}.{name}" if file.descriptor.package else name
        return WriterSchema(RegisteredSchema(-1, proto_text(file), self.schema_type), full)

    def _encoder(self, schema: Schema | None, described: WriterSchema, target: RegisteredSchema | None, lenient: bool) -> Encoder:
        if schema is None:
            raise DataError("data without a schema cannot be written as Protobuf")
        file, path = proto_file(schema, self._options)
        if target is None:
            message = of_file(file).message(path)
        else:
            proto = self._parse(target)
            path = _path_of(proto, described.record_name or "")
            message = proto.message(path)
        fill = compile_filler(message, schema, self._options, lenient)
        make: Any = GetMessageClass(message)
        prefix = _path_bytes(path)

        def encode(values: Sequence[Any]) -> list[bytes]:
            datas = []
            for value in values:
                made = make()
                try:
                    fill(made, value)
                    datas.append(prefix + made.SerializeToString(deterministic=True))
                except (TypeError, ValueError, EncodeError) as e:
                    raise DataError(f"the value does not fit its schema: {e}") from e
            return datas

        return encode

    def _record_name(self, registered: RegisteredSchema) -> str | None:
        proto = self._parse(registered)
        return proto.message([0]).full_name if proto.file.message_type else None

    def _decoder(self, registered: RegisteredSchema, version: int | None) -> Decoder:
        proto = self._parse(registered)
        readers: dict[bytes, tuple[Any, Schema, Any]] = {}

        def decode(data: bytes, at: int) -> SchemaAndValue:
            path, start = _read_path(data, at)
            key = data[at:start]
            known = readers.get(key)
            if known is None:
                message: Descriptor = proto.message(path)
                schema = connect_schema(proto, message, self._options, version)
                known = readers[key] = (GetMessageClass(message), schema, compile_reader(message, schema, self._options))
            make, schema, read = known
            try:
                found = make.FromString(data[start:])
            except (DecodeError, ValueError) as e:
                raise DataError(f"the data is no message {make.DESCRIPTOR.full_name}: {e}") from e
            return SchemaAndValue(schema, read(found))

        return decode

    def _parse(self, registered: RegisteredSchema) -> ProtoSchema:
        return proto_schema(registered.text, self._referenced_texts(registered))


def _path_of(proto: ProtoSchema, name: str) -> list[int]:
    """The path to the message of that name, else to the first one."""
    names = [message.name for message in proto.file.message_type]
    simple = name.rpartition(".")[2]
    return [names.index(simple) if simple in names else 0]


def _path_bytes(path: list[int]) -> bytes:
    """Encodes the path before a message: its length and numbers, or a zero for the first message."""
    return b"\0" if path == [0] else write_long(len(path)) + b"".join(map(write_long, path))


def _read_path(data: bytes, at: int) -> tuple[list[int], int]:
    try:
        length, at = read_number(data, at)
        if length == 0:
            return [0], at
        if not 0 < length <= _MAX_PATH:
            raise DataError(f"a path to the message of {length} steps, where 1 to {_MAX_PATH} make sense")
        path = []
        for _ in range(length):
            step, at = read_number(data, at)
            path.append(step)
    except IndexError as e:
        raise DataError("the data ends within the path to its message") from e
    return path, at
