"""What new Iceberg tables are like."""

from __future__ import annotations

from collections.abc import Sequence

from connectors.spark.config import WantedLayout
from connectors.spark.config_keys import FORMAT_VERSION
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.iceberg.library import IcebergLibrary, IcebergName
from connectors.spark.tables.iceberg.partitioning import new_spec
from connectors.spark.tables.iceberg.types import as_stored, new_schema
from connectors.spark.tables.key_property import key_properties

_PROPERTIES = {
    # Deletion vectors.
    FORMAT_VERSION: "3",
    "write.parquet.compression-codec": "zstd",
    # Each commit writes all snapshots that the table keeps; with one commit per second, those of 5 days would be 400,000.
    "history.expire.max-snapshot-age-ms": str(60 * 60 * 1000),
    "history.expire.min-snapshots-to-keep": "100",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "100",
}


def create_table(library: IcebergLibrary, name: IcebergName, columns: Columns, layout: WantedLayout, keys: Sequence[str]) -> None:
    """Creates an empty table if there is none. Raises ConfigError for a layout that does not fit the columns."""
    stored = as_stored(columns)
    schema = new_schema(stored)
    properties = {**_PROPERTIES, **dict(layout.properties), **key_properties(keys)}
    library.create(name, schema, new_spec(layout.partition_columns, schema, stored), properties)
