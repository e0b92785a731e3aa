"""Finds the tables of a connector among all that exist where it writes, without opening those of others, which may be of any kind
and in any state."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor

from connect.errors import ConnectError, RetriableError
from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import ICEBERG, PARQUET
from connectors.spark.errors import explain, is_forbidden, root_cause
from connectors.spark.tables.delta.log import DeltaLog
from connectors.spark.tables.delta.log_state import has_offsets_of
from connectors.spark.tables.find_tables import find_tables
from connectors.spark.tables.iceberg.library import IcebergLibrary, IcebergName, is_unreadable_metadata
from connectors.spark.tables.iceberg.offsets import names_connector
from connectors.spark.tables.parquet.files import open_table_files
from connectors.spark.tables.parquet.table import ParquetTable
from connectors.spark.tables.staging import open_location

log = logging.getLogger(__name__)

_THREADS = 16


def find_own_tables(config: SparkSinkConfig, lease: session.Lease | None, named: Collection[str] = ()) -> list[str]:
    """Names of the tables that have offsets of the connector, by what they say themselves, and of the ``named`` ones that exist.
    A table that cannot be read is skipped with a warning. Raises ConnectError if a storage or catalog cannot be reached."""
    existing = find_tables(config, lease)
    others = [name for name in existing if name not in named]
    if not others:
        return existing
    has_offsets = _of_format(config, lease)

    def is_own(name: str) -> bool:
        return _check(has_offsets, name, config)

    if config.table_format == ICEBERG:  # one thread at a time may use its library
        found = list(map(is_own, others))
    else:
        with ThreadPoolExecutor(min(len(others), _THREADS), "find-tables") as pool:
            found = list(pool.map(is_own, others))
    foreign = {name for name, own in zip(others, found, strict=True) if not own}
    return [name for name in existing if name not in foreign]


def _of_format(config: SparkSinkConfig, lease: session.Lease | None) -> Callable[[str], bool]:
    """Tells by its name whether a table has offsets of the connector. Raises ConnectError if no table can be read."""
    connector, s3 = config.connector, config.spark.s3
    if config.table_format == PARQUET:
        open_table_files(config.location, s3)
        return lambda name: ParquetTable(_place(config, name), connector, lambda topic: None, s3).has_own_files()
    if config.table_format == ICEBERG:
        assert lease is not None
        library = IcebergLibrary(lease.session())

        def has_iceberg_offsets(name: str) -> bool:
            parsed = IcebergName.parse(config.catalog, name if config.catalog else _place(config, name))
            handle = library.load(parsed)
            return handle is not None and names_connector(handle.property_names(), handle.history(0)["snapshots"], connector)

        return has_iceberg_offsets
    files, root = open_location(config.location, s3)
    return lambda name: has_offsets_of(DeltaLog(files, f"{root}/{name}"), connector, f"table {name} at {_place(config, name)}")


def _place(config: SparkSinkConfig, name: str) -> str:
    return f"{config.catalog}.{name}" if config.catalog else f"{config.location}/{name}"


def _check(has_offsets: Callable[[str], bool], name: str, config: SparkSinkConfig) -> bool:
    """False, with a warning, for a table that cannot be read."""
    place = _place(config, name)
    try:
        return has_offsets(name)
    except Exception as e:
        if isinstance(e, RetriableError):
            raise
        if not isinstance(e, ConnectError) and not is_unreadable_metadata(e) and not is_forbidden(e):
            raise explain(e, f"cannot read the table at {place}") from e
        reason = root_cause(str(e))
    log.warning("Table %s at %s is skipped, as one without offsets of connector %s: %s", name, place, config.connector, reason)
    return False
