"""Opens what is at a location: a directory of Parquet files."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.config import SparkSourceConfig
from connectors.spark.source.errors import TableAbsentError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.parquet.directory_feed import DirectoryFeed, DirectoryFeedSettings
from connectors.spark.source.parquet.file_schemas import PARTITION_TYPES, FileSchemas
from connectors.spark.source.parquet.listing import list_files, partition_values
from connectors.spark.source.parquet.positions import parse_directory_offset


def open_parquet_feed(
    files: fs.FileSystem, folder: str, location: str, settings: SparkSourceConfig, stored: Mapping[str, Any] | None
) -> DirectoryFeed:
    """The feed of what is at a location. Raises DataError if the stored offset cannot be read."""
    own = DirectoryFeedSettings(settings.keys, settings.start, settings.batch_rows, settings.lag_ms, _partition_types(settings))
    return DirectoryFeed(files, folder, location, own, None if stored is None else parse_directory_offset(stored))


def check_parquet(files: fs.FileSystem, folder: str, location: str, settings: SparkSourceConfig) -> None:
    """Raises ConnectError if there are files at a location that cannot be read with these settings: checks the newest one."""
    try:
        for file in heapq.nlargest(1, list_files(files, folder, location)):
            with files.open_input_file(f"{folder}/{file.name}") as stream:
                stored = pq.ParquetFile(stream).schema_arrow
            schema = FileSchemas(location, _partition_types(settings)).add(stored, partition_values(file.name), file.name)
            check_keys(settings.keys, schema, location)
    except (TableAbsentError, pa.ArrowException):
        return  # created later; a file that is still being written, or that the task names
    except OSError as e:
        raise ConnectError(f"cannot read {location}: {e}") from e


def _partition_types(settings: SparkSourceConfig) -> Mapping[str, pa.DataType]:
    return {name: PARTITION_TYPES[type_] for name, type_ in settings.partition_types}
