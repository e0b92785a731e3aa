"""Databases that nobody wrote a module for: what SQLAlchemy's inspector, compiler and types tell is enough to serve them."""

from connectors.jdbc.dialects.generic.dialect import GenericDialect

__all__ = ["GenericDialect"]
