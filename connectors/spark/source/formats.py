"""The formats of tables: how a table of each is opened and checked, and what its offsets are.

What takes long to import is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from connect.errors import ConnectError
from connectors.spark.config_keys import DELTA, ICEBERG, PARQUET
from connectors.spark.source.config import QUERY, SourceTable, SparkSourceConfig
from connectors.spark.source.delta.feed import DeltaFeed, check_delta_table
from connectors.spark.source.errors import TableAbsentError
from connectors.spark.source.offsets import find_offset_problem, parse_offset
from connectors.spark.source.parquet.feed import ParquetFeed, check_parquet, find_parquet_offset_problem
from connectors.spark.source.positioned_feed import FeedSettings
from connectors.spark.source.query.positions import find_cursor_offset_problem, parse_cursor_offset
from connectors.spark.source.table_feed import TableFeed
from connectors.spark.tables.staging import open_location

if TYPE_CHECKING:
    from connectors.spark.source.iceberg.table_home import TableHome

Offset = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Format:
    open_feed: Callable[[SourceTable, SparkSourceConfig, Offset | None], TableFeed]
    """Raises DataError if the stored offset cannot be read."""
    check: Callable[[SourceTable, SparkSourceConfig], None]
    """Raises ConnectError, or TableAbsentError and OSError."""
    find_offset_problem: Callable[[Offset], str | None]


def open_feed(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    """The feed of a table; ``stored`` is its offset, if it has one. Raises DataError if the offset cannot be read."""
    return _FORMATS[settings.format].open_feed(table, settings, stored)


def check_table(table: SourceTable, settings: SparkSourceConfig) -> None:
    """Raises ConnectError if a table exists and cannot be read with these settings."""
    try:
        _FORMATS[settings.format].check(table, settings)
    except TableAbsentError:
        return
    except OSError as e:
        raise ConnectError(f"cannot read table {table.location}: {e}") from e


def find_problem(format_: str, offset: Offset) -> str | None:
    """What is wrong with an offset of a table of this format; None if nothing is."""
    return _FORMATS[format_].find_offset_problem(offset)


def _settings(settings: SparkSourceConfig) -> FeedSettings:
    return FeedSettings(settings.keys, settings.start, settings.pairing_rows, settings.batch_rows)


def _open(table: SourceTable) -> tuple[Any, str]:
    return open_location(table.location, table.s3, "source.location")


def _open_delta(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    return DeltaFeed(*_open(table), table.location, _settings(settings), None if stored is None else parse_offset(stored))


def _check_delta(table: SourceTable, settings: SparkSourceConfig) -> None:
    check_delta_table(*_open(table), table.location, settings.keys)


def _open_iceberg(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    from connectors.spark.source.iceberg.feed import IcebergFeed  # PyIceberg takes as long as the rest together

    position = None if stored is None else parse_offset(stored)
    return IcebergFeed(_iceberg_home(table, settings), table.location, _settings(settings), position)


def _check_iceberg(table: SourceTable, settings: SparkSourceConfig) -> None:
    from connectors.spark.source.iceberg.feed import check_iceberg_table

    check_iceberg_table(_iceberg_home(table, settings), table.location, settings.keys)


def _iceberg_home(table: SourceTable, settings: SparkSourceConfig) -> TableHome:
    from connectors.spark.source.iceberg.table_home import TableDirectory

    if table.catalog:
        from connectors.spark.source.iceberg.catalog import open_table

        return open_table(table.catalog, tuple(table.location.split(".")[1:]), settings.conf)
    return TableDirectory(*_open(table), table.location)


def _open_parquet(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    return ParquetFeed(*_open(table), table.location, settings, stored)


def _check_parquet(table: SourceTable, settings: SparkSourceConfig) -> None:
    check_parquet(*_open(table), table.location, settings)


def _open_query(table: SourceTable, settings: SparkSourceConfig, stored: Offset | None) -> TableFeed:
    from connectors.spark.source.query.feed import QueryFeed, QueryFeedSettings  # PySpark takes most of a second

    assert settings.query is not None
    own = QueryFeedSettings(
        settings.query,
        settings.keys,
        settings.start,
        settings.batch_rows,
        settings.lag_ms,
        table.name,
        f"{settings.connector}-{table.name}",
    )
    return QueryFeed(own, None if stored is None else parse_cursor_offset(stored))


def _check_query(table: SourceTable, settings: SparkSourceConfig) -> None:
    """Nothing: it would start Spark. The task names what is wrong with a query."""


_FORMATS = {
    DELTA: _Format(_open_delta, _check_delta, find_offset_problem),
    ICEBERG: _Format(_open_iceberg, _check_iceberg, find_offset_problem),
    PARQUET: _Format(_open_parquet, _check_parquet, find_parquet_offset_problem),
    QUERY: _Format(_open_query, _check_query, find_cursor_offset_problem),
}
