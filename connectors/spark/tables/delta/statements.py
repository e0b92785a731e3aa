"""SQL statements on Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from connectors.spark.plan.evolution import contains_timestamp_ntz, contains_variant, sql_type
from connectors.spark.plan.sql import literal, table_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def add_columns(session: SparkSession, path: str, added: list[tuple[str, pa.DataType]]) -> None:
    """Adds columns (quoted paths) at the end, in a separate commit without records: harmless if no further commit follows."""
    table = table_at(path)
    allow_types(session, path, [type_ for _, type_ in added])
    columns = ", ".join(f"{name} {sql_type(t)}" for name, t in added)
    session.sql(f"ALTER TABLE {table} ADD COLUMNS ({columns})")


def allow_types(session: SparkSession, path: str, types: Sequence[pa.DataType]) -> None:
    """Enables the features of the table that columns of these types need."""
    for feature, needs_feature in (("timestampNtz", contains_timestamp_ntz), ("variantType", contains_variant)):
        if any(map(needs_feature, types)):
            session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('delta.feature.{feature}' = 'supported')")


def widen_columns(session: SparkSession, path: str, widened: list[tuple[str, pa.DataType]]) -> None:
    """Gives columns (quoted paths) wider types, each in a separate commit without records: harmless if no other one follows."""
    table = table_at(path)
    session.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    for name, type_ in widened:
        session.sql(f"ALTER TABLE {table} ALTER COLUMN {name} TYPE {sql_type(type_)}")


def set_properties(session: SparkSession, path: str, properties: Mapping[str, str]) -> None:
    """Sets properties of the table, in a separate commit without records."""
    listed = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in properties.items())
    session.sql(f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ({listed})")
