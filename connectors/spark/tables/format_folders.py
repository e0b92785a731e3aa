"""The folder by which a table in a directory is known, by its format."""

from __future__ import annotations

from collections.abc import Callable

from connect.errors import ConnectError
from connectors.spark.config_keys import DELTA, ICEBERG, PARQUET

FORMAT_FOLDERS = {DELTA: "_delta_log", PARQUET: "_sluice/columns", ICEBERG: "metadata"}


def refuse_other_format(own: str, location: str, has_folder: Callable[[str], bool]) -> None:
    """Raises ConnectError if the directory in which a table is to be created has one of another format. Delta refuses it
    itself."""
    for other, name in FORMAT_FOLDERS.items():
        if other != own and has_folder(name):
            raise ConnectError(
                f"the {own} table at {location} cannot be created, because a {other} table is there: set table.format={other}, "
                "or write into another folder (table.location, table.name.format)"
            )
