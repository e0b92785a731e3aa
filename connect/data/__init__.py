"""Schemas, structs, logical types, headers."""

from connect.data.headers import Header, Headers
from connect.data.schema import Field, Schema, SchemaBuilder, Type
from connect.data.struct import Struct

__all__ = ["Field", "Header", "Headers", "Schema", "SchemaBuilder", "Struct", "Type"]
