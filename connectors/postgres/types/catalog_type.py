"""Types of the database."""

from __future__ import annotations

from dataclasses import dataclass

DROPPED = "dropped"
"""The kind of a type that the stream still names, but the database no longer has."""


@dataclass(frozen=True, slots=True)
class CatalogType:
    """A type of the database (a row of pg_type), with the labels of an enum in order."""

    oid: int
    schema: str
    name: str
    kind: str
    element_oid: int
    base_oid: int
    base_typmod: int
    labels: tuple[str, ...] = ()
