"""Finds the tables that exist where a connector writes its tables."""

from __future__ import annotations

from pyarrow import fs

from connectors.spark import session
from connectors.spark.config import SparkSinkConfig
from connectors.spark.errors import explain
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.format_folders import FORMAT_FOLDERS
from connectors.spark.tables.iceberg.library import IcebergLibrary
from connectors.spark.tables.staging import open_location


def find_tables(config: SparkSinkConfig, lease: session.Lease | None) -> list[str]:
    """Names of all tables, also of other writers. Raises ConnectError."""
    if not config.catalog:
        return _list_folders(config.location, config.spark.s3)
    assert lease is not None
    catalog, *namespace = config.catalog.split(".")
    try:
        return IcebergLibrary(lease.session()).table_names(catalog, namespace)
    except Exception as e:
        raise explain(e, f"cannot list the tables in {config.catalog}") from e


def _list_folders(location: str, s3: S3Settings | None) -> list[str]:
    """Names of the folders below a location that contain a table."""
    files, root = open_location(location, s3)
    found = set()
    try:
        folders = [i for i in files.get_file_info(fs.FileSelector(root, allow_not_found=True)) if i.type == fs.FileType.Directory]
        for marker in FORMAT_FOLDERS.values():
            markers = files.get_file_info([f"{i.path}/{marker}" for i in folders])
            found |= {i.base_name for i, m in zip(folders, markers, strict=True) if m.type == fs.FileType.Directory}
    except OSError as e:
        raise explain(e, f"cannot list the tables in {location}") from e
    return sorted(found)
