"""Refuses to continue with tables whose offsets no longer say what the table contains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from connect.errors import ConnectError
from connectors.spark.plan.sql import table_at
from connectors.spark.tables.delta.log import DeltaLog, LoggedCommit

_RETENTION = "delta.setTransactionRetentionDuration"


def check_retention(metadata: Mapping[str, Any], place: str, path: str) -> None:
    """Raises ConnectError when Delta would remove the offsets from the table's state."""
    if _RETENTION in (metadata.get("configuration") or {}):
        raise ConnectError(
            f"{place} has the property {_RETENTION}, which removes the connector's offsets from the table; remove it: "
            f"ALTER TABLE {table_at(path)} UNSET TBLPROPERTIES ('{_RETENTION}')"
        )


def check_not_replaced(log: DeltaLog, version: int, connector: str, place: str) -> None:
    """Raises ConnectError when somebody replaced the rows after the connector's last commit."""
    for logged in log.backwards(version):
        own = logged.user_metadata
        if own is not None and own.connector == connector:
            return
        refuse_replacement(logged, place)


def refuse_replacement(logged: LoggedCommit, place: str) -> None:
    """Raises ConnectError for a commit that replaced the rows."""
    if logged.replaces_rows:
        raise ConnectError(
            f"{place}: {logged.operation} replaced the table's rows in version {logged.version}, so the connector's offsets no "
            "longer say what the table contains. Stop the connector, set its offsets over REST to what the table contains "
            "(PATCH /connectors/<name>/offsets) or delete them to load all records again, and resume it"
        )
