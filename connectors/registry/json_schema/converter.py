"""JsonSchemaConverter: JSON with its schemas in a registry. ``io.confluent.connect.json.JsonSchemaConverter``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson
from jsonschema.exceptions import SchemaError as InvalidSchema
from jsonschema.exceptions import ValidationError
from jsonschema.validators import Draft7Validator, validator_for
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from connect.config.definition import ConfigDef
from connect.data.schema import Schema
from connect.errors import DataError, SchemaError
from connect.record import SchemaAndValue
from connectors.registry.client import RegisteredSchema
from connectors.registry.converter import Decoder, Encoder, RegistryConverter, WriterSchema
from connectors.registry.json_schema.config import CONFIG, JsonSchemaConfig, parse_json_schema_config
from connectors.registry.json_schema.decode import compile_reader, parse
from connectors.registry.json_schema.encode import ABSENT, compile_writer, json_bytes
from connectors.registry.json_schema.from_connect import json_schema
from connectors.registry.json_schema.to_connect import Documents, connect_schema, load

Check = Callable[[bytes], None]


class JsonSchemaConverter(RegistryConverter):
    """Converts between JSON data and Connect values, with JSON schemas in a registry."""

    schema_type = "JSON"
    format_name = "JSON Schema"

    def __init__(self) -> None:
        super().__init__()
        self._options = JsonSchemaConfig()

    @classmethod
    def config_def(cls) -> ConfigDef:
        return CONFIG

    def _configure_format(self, values: Mapping[str, Any], strict: bool) -> None:
        self._options = parse_json_schema_config(values, strict)

    def _describe(self, schema: Schema | None, topic: str) -> WriterSchema:
        if schema is None:
            raise DataError("data without a schema cannot be written with JSON Schema; JsonConverter writes it")
        text = orjson.dumps(json_schema(schema, self._options)).decode()
        return WriterSchema(RegisteredSchema(-1, text, self.schema_type), schema.name)

    def _encoder(self, schema: Schema | None, described: WriterSchema, target: RegisteredSchema | None, lenient: bool) -> Encoder:
        if schema is None:
            raise SchemaError("data without a schema cannot be written with JSON Schema")
        write = compile_writer(schema, self._options)
        check: Check | None = None
        if target is not None and not lenient:
            check = _validator(self._documents(target))
        elif self._options.validates:
            check = _validator(self._documents(target or described.schema))

        def encode(values: Sequence[Any]) -> list[bytes]:
            nodes = [write(v) for v in values]
            datas = [json_bytes(None if node is ABSENT else node) for node in nodes]
            if check is not None:
                for data in datas:
                    check(data)
            return datas

        return encode

    def _null_is_tombstone(self, schema: Schema | None) -> bool:
        # As in the original: if the schema allows null, it is written as JSON null or as the default.
        if schema is None:
            return True
        has_default = schema.default is not None and not self._options.ignore_default
        return not (schema.optional or has_default)

    def _record_name(self, registered: RegisteredSchema) -> str | None:
        root = self._documents(registered).root
        title = root.get("title") if isinstance(root, dict) else None
        return title if isinstance(title, str) else None

    def _decoder(self, registered: RegisteredSchema, version: int | None) -> Decoder:
        documents = self._documents(registered)
        schema = connect_schema(documents, self._options, version)
        read = compile_reader(schema, self._options)
        strict = self._options.strict
        check = _validator(documents) if self._options.validates else None

        def decode(data: bytes, at: int) -> SchemaAndValue:
            payload = data[at:]
            if check is not None:
                check(payload)
            return SchemaAndValue(schema, parse(payload, read, strict))

        return decode

    def _documents(self, registered: RegisteredSchema) -> Documents:
        return load(registered.text, self._referenced_texts(registered))


def _validator(documents: Documents) -> Check:
    """A check that raises DataError for invalid JSON. Only references in the registry are resolved; nothing is fetched."""
    kind = validator_for(documents.root, default=Draft7Validator)
    resources = [(name, Resource.from_contents(one, default_specification=DRAFT7)) for name, one in documents.others.items()]
    try:
        kind.check_schema(documents.root)
    except InvalidSchema as e:
        raise SchemaError(f"the JSON schema itself is not valid: {e.message}") from e
    known: Registry[Any] = Registry().with_resources(resources)
    validator = kind(documents.root, registry=known)

    def check(data: bytes) -> None:
        try:
            node = orjson.loads(data)
        except orjson.JSONDecodeError as e:
            raise DataError(f"the payload is no JSON: {e}") from e
        try:
            validator.validate(node)
        except ValidationError as e:
            path = ".".join(str(part) for part in e.absolute_path)
            where = f"field {path}: " if path else ""
            raise DataError(f"{where}not valid under the JSON schema: {e.message[:300]}") from e
        except (Unresolvable, RecursionError) as e:
            raise DataError(f"the JSON schema cannot be applied: {type(e).__name__}") from e

    return check
