"""Converts a component's ConfigDef to JSON Schema, for editors that validate configurations."""

from __future__ import annotations

from typing import Any

from connect.config.definition import ConfigKey
from connect.config.types import ConfigType
from connect.config.validators import OneOf, Range
from sluice.reference.pages import Component

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_REFERENCE = r"\$\{[^}]*:[^}]*\}"
"""A config provider reference, allowed for any key."""
_TEXTS = {
    ConfigType.BOOLEAN: r"^\s*([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])\s*$",
    ConfigType.INT: r"^\s*[+-]?[0-9]+\s*$",
    ConfigType.SHORT: r"^\s*[+-]?[0-9]+\s*$",
    ConfigType.LONG: r"^\s*[+-]?[0-9]+\s*$",
    ConfigType.DOUBLE: r"^\s*[+-]?[0-9.]+([eE][+-]?[0-9]+)?\s*$",
}
_JSON_TYPES = {
    ConfigType.BOOLEAN: "boolean",
    ConfigType.INT: "integer",
    ConfigType.SHORT: "integer",
    ConfigType.LONG: "integer",
    ConfigType.DOUBLE: "number",
}


def json_schema(component: Component) -> dict[str, Any]:
    """Returns the schema of an object with the component's keys. Other keys are allowed: connectors also have keys of converters
    etc.

    Numbers and booleans may be JSON values or text, as in connector files.
    """
    keys = [key for key in component.table.keys.values() if not key.internal]
    return {
        "$schema": _DIALECT,
        "title": component.title,
        "type": "object",
        "properties": {key.name: _property(key, component) for key in keys},
        "required": [key.name for key in keys if key.required and not key.aliases],
    }


def _property(key: ConfigKey, component: Component) -> dict[str, Any]:
    found: dict[str, Any] = {"description": key.doc}
    default = component.table.default_text(key.name)
    if default is not None and key.type is not ConfigType.PASSWORD:
        found["default"] = default
    if key.type is ConfigType.PASSWORD:
        found["writeOnly"] = True
    choices = [choice for choice in key.validator.values if choice is not None] if isinstance(key.validator, OneOf) else []
    if choices and isinstance(key.validator, OneOf) and not key.validator.ignore_case:
        return {**found, "anyOf": [{"enum": choices}, {"type": "string", "pattern": _REFERENCE}]}
    if key.type not in _JSON_TYPES:
        return {**found, "type": "string"}
    found["type"] = [_JSON_TYPES[key.type], "string"]
    found["pattern"] = f"{_TEXTS[key.type]}|{_REFERENCE}"
    if isinstance(key.validator, Range):
        bounds = {"minimum": key.validator.minimum, "maximum": key.validator.maximum}
        found.update((name, bound) for name, bound in bounds.items() if bound is not None)
    return found
