"""Databases without a dialect of their own, served through SQLAlchemy's inspector, compiler, and types."""

from connectors.jdbc.dialects.generic.dialect import GenericDialect

__all__ = ["GenericDialect"]
