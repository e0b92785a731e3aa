"""Applies a compiled chain to a DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING

from connectors.spark.transforms.projection import Projection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SETTINGS = {"spark.sql.session.timeZone": "UTC", "spark.sql.parser.escapedStringLiterals": "false"}
"""Settings of the session that the SQL assumes. It does not depend on ANSI mode: nothing in it fails."""


def transform(frame: DataFrame, projection: Projection) -> DataFrame:
    """The records after the chain, without those that it drops.

    ``frame`` has the columns that :mod:`connectors.spark.transforms.compiler` describes. Order and partitions stay: there is no
    shuffle, so that the records of an offset range are still in order (promise 3). Records with the outcome ``BY_ROW`` are
    unchanged.
    """
    # The outcome is computed once, in a projection of its own: all other columns depend on it.
    marked = frame.selectExpr("*", f"{projection.outcome} AS {projection.outcome_column}")
    if projection.dropped:
        marked = marked.where(f"{projection.outcome_column} NOT IN ({', '.join(map(str, projection.dropped))})")
    return marked.selectExpr(*(f"{sql} AS {name}" for name, sql in projection.select))
