"""Types of columns: declared types, their schemas, and the values that they accept."""

from connectors.sqlite.types.declared import DeclaredType, TypeAffinity, parse_declared_type, source_type
from connectors.sqlite.types.registry import KINDS, column_type

__all__ = ["KINDS", "DeclaredType", "TypeAffinity", "column_type", "parse_declared_type", "source_type"]
