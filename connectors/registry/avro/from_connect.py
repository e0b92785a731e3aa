"""Converts Connect schemas to Avro schemas."""

from __future__ import annotations

import logging
from typing import Any

from connect.data.logical import DATE, DECIMAL, TIME, TIMESTAMP, decimal_scale
from connect.data.schema import Schema, Type
from connect.errors import DataError, SchemaError
from connectors.registry.avro.config import (
    ANYTHING,
    CONNECT_ENUM_DOC,
    CONNECT_RECORD_DOC,
    DECIMAL_PRECISION,
    DEFAULT_NAME,
    DEFAULT_PRECISION,
    ENUM_DEFAULT,
    ENUM_DOC,
    FIELD_DEFAULT,
    FIELD_DOC,
    FIXED_SIZE,
    MAP_ENTRY,
    NAMESPACE,
    RECORD_DOC,
    AvroConfig,
)
from connectors.registry.avro.defaults import dump_default
from connectors.registry.avro.names import AVRO_KINDS, avro_name, branch_name, is_enum, is_fixed, is_union, scrub_full
from connectors.registry.avro.types import MAX_DEPTH, AvroField, AvroType, avro_text

log = logging.getLogger(__name__)
_NULL = AvroType("null")
_LOGICAL = {TIME: "time-millis", TIMESTAMP: "timestamp-millis", DATE: "date"}


def anything() -> AvroType:
    """The schema of schemaless data: a record of which one field is set."""
    made = AvroType("record", ANYTHING)
    entry = AvroType("record", f"{NAMESPACE}.{MAP_ENTRY}", fields=[AvroField("key", made), AvroField("value", made)])
    kinds = [AvroType(kind) for kind in ("boolean", "bytes", "double", "float", "int", "long", "string")]
    kinds += [AvroType("array", items=made), AvroType("array", items=entry)]
    names = ("boolean", "bytes", "double", "float", "int", "long", "string", "array", "map")
    made.fields = [
        AvroField(name, AvroType("union", branches=[_NULL, kind]), default=None) for name, kind in zip(names, kinds, strict=True)
    ]
    return made


def avro_schema(schema: Schema | None, options: AvroConfig) -> AvroType:
    """The Avro schema for values of the Connect schema. Raises SchemaError for what Avro cannot name."""
    return anything() if schema is None else _ConnectToAvro(options).convert(schema, 0)


def map_is_native(schema: Schema, options: AvroConfig) -> bool:
    """Whether a map is an Avro map. Otherwise it is an array of entries."""
    keys = schema.key_schema
    return keys is not None and keys.type is Type.STRING and (not keys.optional or options.optional_map_keys)


class _ConnectToAvro:
    def __init__(self, options: AvroConfig) -> None:
        self._options = options
        self._named: dict[str, tuple[Schema, AvroType]] = {}
        self._unnamed: dict[Schema, AvroType] = {}
        self._default_names = 0
        self._seen_names: set[str] = set()

    def convert(self, schema: Schema | None, depth: int, *, ignore_optional: bool = False) -> AvroType:
        if schema is None:
            raise SchemaError("An array or map without the schema of its elements cannot be written as Avro")
        if depth > MAX_DEPTH:
            raise SchemaError(f"The schema is nested more than {MAX_DEPTH} levels deep")
        if is_union(schema) and schema.type is Type.STRUCT:
            return self._union(schema, depth)
        made = self._named_type(schema, depth) if self._is_named(schema) else self._decorated(schema, depth)
        return made if ignore_optional or not schema.optional else _optional(schema, made)

    def _is_named(self, schema: Schema) -> bool:
        return schema.type is Type.STRUCT or is_fixed(schema) or self._writes_enum(schema)

    def _writes_enum(self, schema: Schema) -> bool:
        return is_enum(schema) and (self._options.enhanced or self._options.sum_types)

    def _named_type(self, schema: Schema, depth: int) -> AvroType:
        """Converts a record, enum, or fixed: defined at its first use, referenced later."""
        core = schema.replace(optional=False) if schema.optional else schema
        if schema.name is None and (known := self._unnamed.get(core)) is not None:
            return known
        name = self._name_of(schema)
        if name in self._named:
            before, known = self._named[name]
            if before == core or self._is_same_type(core, known, depth):
                return known
            raise SchemaError(
                f"Two different schemas have the name {name}, and Avro can define a name once. Give one of them another name "
                "(SetSchemaMetadata)"
            )
        made = self._decorated(core, depth, name)
        self._named[name] = core, made
        if schema.name is None:
            self._unnamed[core] = made
        return made

    def _is_same_type(self, schema: Schema, known: AvroType, depth: int) -> bool:
        """Whether the schema has the same encoding, ignoring docs and defaults."""
        own = _ConnectToAvro(self._options)._decorated(schema, depth, known.name)
        return avro_text(_bare(own)) == avro_text(_bare(known))

    def _name_of(self, schema: Schema) -> str:
        name = schema.name
        if self._writes_enum(schema):
            name = (schema.parameters or {}).get(self._options.enum_parameter)
            if name is None:
                raise SchemaError(f"An enum without the parameter {self._options.enum_parameter}, which names it")
        if name is None:
            self._default_names += 1
            return DEFAULT_NAME + (str(self._default_names) if self._default_names > 1 else "")
        return avro_name(name, "The schema name", self._options, dotted=True)

    def _decorated(self, schema: Schema, depth: int, name: str | None = None) -> AvroType:
        made = self._base(schema, depth, name)
        if self._options.meta_data:
            self._add_meta_data(schema, made.props)
        self._add_logical(schema, made.props)
        made.props.update({k: v for k, v in (schema.parameters or {}).items() if k.startswith("avro")})
        return made

    def _base(self, schema: Schema, depth: int, name: str | None) -> AvroType:
        options, parameters = self._options, schema.parameters or {}
        match schema.type:
            case Type.INT8 | Type.INT16:
                return AvroType("int")
            case Type.STRING if self._writes_enum(schema):
                return self._enum(name or "", parameters)
            case Type.BYTES:
                made = AvroType("fixed", name, size=_fixed_size(parameters)) if is_fixed(schema) else AvroType("bytes")
                if schema.name == DECIMAL:
                    made.props.update(scale=decimal_scale(schema), precision=_precision(parameters))
                return made
            case Type.ARRAY:
                return AvroType("array", items=self.convert(schema.value_schema, depth + 1))
            case Type.MAP if map_is_native(schema, options):
                return AvroType("map", items=self.convert(schema.value_schema, depth + 1))
            case Type.MAP:
                return AvroType("array", items=self._map_entry(schema, depth))
            case Type.STRUCT:
                doc = parameters.get(CONNECT_RECORD_DOC if options.discard_type_doc else RECORD_DOC)
                return AvroType("record", name, doc, fields=self._fields(schema, depth))
            case _:
                return AvroType(AVRO_KINDS[schema.type])

    def _enum(self, name: str, parameters: dict[str, str]) -> AvroType:
        prefix = self._options.enum_parameter + "."
        symbols = [k[len(prefix) :] for k in parameters if k.startswith(prefix)]
        simple = name.rpartition(".")[2]
        if self._options.discard_type_doc:
            return AvroType("enum", name, parameters.get(CONNECT_ENUM_DOC), symbols=symbols)
        default = parameters.get(ENUM_DEFAULT + simple)
        return AvroType("enum", name, parameters.get(ENUM_DOC + simple), symbols=symbols, enum_default=default)

    def _map_entry(self, schema: Schema, depth: int) -> AvroType:
        fields = [
            self._field(name, part, None, depth)
            for name, part in (("key", schema.key_schema), ("value", schema.value_schema))
            if part is not None
        ]
        if schema.name is None:
            entry = AvroType("record", f"{NAMESPACE}.{MAP_ENTRY}", fields=fields)
        else:
            entry = AvroType("record", self._name_of(schema), fields=fields, props={"connect.internal.type": MAP_ENTRY})
        return self._once(entry)

    def _once(self, made: AvroType) -> AvroType:
        """Defines the entry type of maps once per name; it has no Connect schema of its own."""
        name = made.name or ""
        if name in self._named:
            known = self._named[name][1]
            if avro_text(_bare(made)) != avro_text(_bare(known)):
                raise SchemaError(
                    f"Two maps of different types, with other than text keys, would have the Avro name {name}; give the map "
                    "schemas names of their own"
                )
            return known
        self._named[name] = Schema.STRING, made  # differs from every struct, so every use is compared by type
        return made

    def _fields(self, schema: Schema, depth: int) -> list[AvroField]:
        made: dict[str, AvroField] = {}
        for field in schema.fields or ():
            name = avro_name(field.name, "The field name", self._options)
            if name in made:
                raise SchemaError(f"Two fields have the Avro name {name} once scrubbed; the second is {field.name}")
            doc = None
            if not self._options.discard_type_doc:
                doc = (schema.parameters or {}).get(FIELD_DOC + field.name)
            try:
                made[name] = self._field(name, field.schema, doc, depth)
            except DataError as e:
                raise type(e)(f"field {field.name}: {e.message}") from e
        return list(made.values())

    def _field(self, name: str, schema: Schema, doc: str | None, depth: int) -> AvroField:
        options = self._options
        scrubbed = None if schema.name is None else scrub_full(schema.name) if options.scrub_names else schema.name
        seen = scrubbed is not None and scrubbed in self._seen_names
        if scrubbed is not None:
            self._seen_names.add(scrubbed)
        made = AvroField(name, self.convert(schema, depth + 1), schema.doc if options.discard_type_doc else doc)
        if schema.default is not None:
            default = dump_default(schema, schema.default, options)
            if _default_fits(made.type, default):
                made.default = default
            else:
                log.warning("Ignoring the default of field %s, which Avro cannot hold", name)
        elif schema.optional:
            made.default = None
        parameters = _written_parameters(schema, options)
        if parameters and seen and options.meta_data and self._is_named(schema):
            # The type is only referenced here; its parameters belong to another use.
            made.props["connect.parameters"] = parameters
        return made

    def _union(self, schema: Schema, depth: int) -> AvroType:
        branches = [_NULL] if schema.optional else []
        names: set[str] = set()
        for index, field in enumerate(schema.fields or ()):
            branch = self.convert(field.schema, depth + 1, ignore_optional=True)
            name = branch_name(branch, index, self._options) if branch.name is None else branch.name
            if name in names:
                raise SchemaError(f"The union has two fields of the Avro type {name}; the second is {field.name}")
            names.add(name)
            branches.append(branch)
        return AvroType("union", branches=branches)

    def _add_meta_data(self, schema: Schema, props: dict[str, Any]) -> None:
        options = self._options
        if schema.doc is not None:
            props["connect.doc"] = schema.doc
        if schema.version is not None:
            props["connect.version"] = schema.version
        if parameters := _written_parameters(schema, options):
            props["connect.parameters"] = parameters
        if schema.default is not None and (options.discard_type_doc or FIELD_DEFAULT not in (schema.parameters or {})):
            props["connect.default"] = dump_default(schema, schema.default, options)
        if schema.name is not None:
            props["connect.name"] = schema.name
        if schema.type in (Type.INT8, Type.INT16):
            props["connect.type"] = schema.type.value

    def _add_logical(self, schema: Schema, props: dict[str, Any]) -> None:
        if schema.name == DECIMAL:
            props["logicalType"] = "decimal"
        elif schema.name in _LOGICAL:
            props["logicalType"] = _LOGICAL[schema.name]


def _optional(schema: Schema, made: AvroType) -> AvroType:
    # In Avro, a union's default has its first type.
    return AvroType("union", branches=[made, _NULL] if schema.default is not None else [_NULL, made])


def _written_parameters(schema: Schema, options: AvroConfig) -> dict[str, str]:
    return {k: v for k, v in (schema.parameters or {}).items() if options.discard_type_doc or k != FIELD_DEFAULT}


def _default_fits(avro: AvroType, default: Any) -> bool:
    """Whether Avro accepts the JSON as a default of that type."""
    first = avro.branches[0] if avro.kind == "union" and avro.branches else avro
    match first.kind:
        case "enum":
            return default in first.symbols
        case "fixed":
            return isinstance(default, str) and len(default) == first.size
        case "float" | "double":
            return not isinstance(default, str)
        case _:
            return True


def _fixed_size(parameters: dict[str, str]) -> int:
    return _integer(FIXED_SIZE, parameters[FIXED_SIZE])


def _precision(parameters: dict[str, str]) -> int:
    return _integer(DECIMAL_PRECISION, parameters.get(DECIMAL_PRECISION, str(DEFAULT_PRECISION)))


def _integer(name: str, text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise SchemaError(f"The schema parameter {name} is {text!r}; expected a whole number")
    return int(text)


def _bare(made: AvroType, within: tuple[AvroType, ...] = ()) -> AvroType:
    """The type without attributes that do not affect its encoding."""
    if made in within:
        return AvroType("string", props={"in": made.name})
    inner = (*within, made)
    return AvroType(
        made.kind,
        None if made.name is None else made.name,
        fields=[AvroField(f.name, _bare(f.type, inner)) for f in made.fields],
        branches=[_bare(b, inner) for b in made.branches],
        items=None if made.items is None else _bare(made.items, inner),
        symbols=made.symbols,
        size=made.size,
    )
