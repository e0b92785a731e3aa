"""Finds out what is at a location: a directory of Parquet files, or a Parquet table of the sink."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.config import SparkSourceConfig
from connectors.spark.source.errors import FileGapError, TableAbsentError, UnsupportedTableError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.parquet.chain_feed import ChainFeed
from connectors.spark.source.parquet.chain_positions import (
    ChainsPosition,
    find_chains_offset_problem,
    is_chains_offset,
    parse_chains_offset,
)
from connectors.spark.source.parquet.directory_feed import DirectoryFeed, DirectoryFeedSettings
from connectors.spark.source.parquet.file_schemas import PARTITION_TYPES, FileSchemas
from connectors.spark.source.parquet.listing import list_files, partition_values
from connectors.spark.source.parquet.positions import DirectoryPosition, find_directory_offset_problem, parse_directory_offset
from connectors.spark.source.positioned_feed import FeedSettings
from connectors.spark.source.table_feed import FeedItem
from connectors.spark.tables.files.file_columns import open_parquet
from connectors.spark.tables.parquet.links import COLUMNS_FOLDER, EARLIER_FOLDER, FOLDER


class ParquetFeed:
    """The feed of a directory of files, or of a Parquet table of the sink.

    Which one it is shows when it exists (:class:`connectors.spark.source.table_feed.TableFeed`).
    """

    def __init__(
        self, files: fs.FileSystem, folder: str, location: str, settings: SparkSourceConfig, stored: Mapping[str, Any] | None
    ) -> None:
        """``stored`` is the offset, if there is one. Raises DataError if it cannot be read."""
        self._files = files
        self._folder = folder
        self._location = location
        self._settings = settings
        self._stored = None if stored is None else _parse_offset(stored)
        self._feed: DirectoryFeed | ChainFeed | None = None

    @property
    def position(self) -> DirectoryPosition | ChainsPosition | None:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        return self._stored if self._feed is None else self._feed.position

    def move_to(self, position: Any) -> None:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        if self._feed is None:
            self._stored = position
        else:
            self._feed.move_to(position)

    def start_again(self) -> None:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        if self._feed is None:
            self._stored = None
        else:
            self._feed.start_again()

    def figures(self) -> Mapping[str, Any]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        return {"phase": "starting", "rows": 0} if self._feed is None else self._feed.figures()

    def close(self) -> None:
        """Does nothing: no file stays open."""

    def items(self) -> Iterator[FeedItem]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        if self._feed is None:
            self._feed = self._open()
        yield from self._feed.items()

    def _open(self) -> DirectoryFeed | ChainFeed:
        place, settings, stored = (self._files, self._folder, self._location), self._settings, self._stored
        is_table = _is_sink_table(*place)
        if isinstance(stored, DirectoryPosition if is_table else ChainsPosition):
            known, other = ("a directory", "a Parquet table of the sink") if is_table else ("a table of the sink", "a directory")
            raise FileGapError(
                f"the offset of {self._location} is one of {known}, but {self._location} is {other}",
                "Stop the connector and DELETE its offsets to read it from the start",
            )
        if is_table:
            own = FeedSettings(settings.keys, settings.start, settings.pairing_rows, settings.batch_rows)
            return ChainFeed(*place, own, stored if isinstance(stored, ChainsPosition) else None)
        types = _partition_types(settings)
        files = DirectoryFeedSettings(settings.keys, settings.start, settings.batch_rows, settings.lag_ms, types)
        return DirectoryFeed(*place, files, stored if isinstance(stored, DirectoryPosition) else None)


def _parse_offset(offset: Mapping[str, Any]) -> DirectoryPosition | ChainsPosition:
    return parse_chains_offset(offset) if is_chains_offset(offset) else parse_directory_offset(offset)


def find_parquet_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset of a directory or of a Parquet table of the sink; None if nothing is."""
    return find_chains_offset_problem(offset) if is_chains_offset(offset) else find_directory_offset_problem(offset)


def _is_sink_table(files: fs.FileSystem, folder: str, location: str) -> bool:
    """Raises UnsupportedTableError for a table of an earlier release."""
    columns, earlier = files.get_file_info([f"{folder}/{COLUMNS_FOLDER}", f"{folder}/{EARLIER_FOLDER}"])
    if earlier.type is fs.FileType.Directory:
        raise UnsupportedTableError(
            f"an earlier release of the sink wrote the table {location}. To read its files as those of a directory, remove "
            f"{location}/{FOLDER} when the sink has moved to another directory"
        )
    return bool(columns.type is fs.FileType.Directory)


def check_parquet(files: fs.FileSystem, folder: str, location: str, settings: SparkSourceConfig) -> None:
    """Raises ConnectError if there are files at a location that cannot be read with these settings: checks the newest one."""
    try:
        for file in heapq.nlargest(1, list_files(files, folder, location)):
            with files.open_input_file(f"{folder}/{file.name}") as stream:
                stored = open_parquet(stream).schema_arrow
            schema = FileSchemas(location, _partition_types(settings)).add(stored, partition_values(file.name), file.name)
            check_keys(settings.keys, schema, location)
    except (TableAbsentError, pa.ArrowException):
        return  # created later; a file that is still being written, or that the task names
    except OSError as e:
        raise ConnectError(f"cannot read {location}: {e}") from e


def _partition_types(settings: SparkSourceConfig) -> Mapping[str, pa.DataType]:
    return {name: PARTITION_TYPES[type_] for name, type_ in settings.partition_types}
