"""Refuses to continue with tables whose offsets no longer say what the table contains."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from connect.errors import ConnectError
from connectors.spark.plan.evolution import quote
from connectors.spark.plan.sql import table_at
from connectors.spark.tables.application_ids import StoredOffsets
from connectors.spark.tables.conflicts import HistoryMoved, UnsuitableTable
from connectors.spark.tables.delta.log import DeltaLog, LoggedCommit
from connectors.spark.tables.delta.suitability import Obstacle
from connectors.spark.tables.effects import Effect

RETENTION = "delta.setTransactionRetentionDuration"
"""Transaction identifiers that are older than its value expire."""
_APPEND_ONLY = "delta.appendOnly"


def check_retention(metadata: Mapping[str, Any], place: str, path: str) -> None:
    """Raises ConnectError when Delta would remove the offsets from the table's state."""
    if RETENTION in (metadata.get("configuration") or {}):
        raise ConnectError(
            f"{place} has the property {RETENTION}, which removes the connector's offsets from the table; remove it: "
            f"ALTER TABLE {table_at(path)} UNSET TBLPROPERTIES ('{RETENTION}')"
        )


def check_not_append_only(metadata: Mapping[str, Any], place: str, path: str) -> None:
    """Raises ConnectError when a table that must be upserted allows only appends."""
    if (metadata.get("configuration") or {}).get(_APPEND_ONLY) == "true":
        raise ConnectError(
            f"{place} has the property {_APPEND_ONLY}, but the sink changes and deletes rows in it. Allow that with "
            f"ALTER TABLE {table_at(path)} SET TBLPROPERTIES ('{_APPEND_ONLY}' = 'false') and restart the task, or set "
            "write.mode=append"
        )


def refuse_padded_keys(keys: Collection[str], padded: Collection[str], place: str, path: str) -> None:
    """Raises ConnectError for a key column of type CHAR, in which a MERGE finds no rows."""
    found = [quote(name) for name in keys if name in padded]
    if not found:
        return
    table = table_at(path)
    statements = [f"ALTER TABLE {table} ALTER COLUMN {name} TYPE STRING" for name in found]
    statements.append(f"UPDATE {table} SET {', '.join(f'{name} = rtrim({name})' for name in found)}")
    names = ", ".join(found).replace("`", "")
    raise ConnectError(
        f"{place}: the key column {names} has the type CHAR, whose values Spark fills up with spaces, so it finds no rows by "
        f"them. Make it a STRING with {'; '.join(statements)} and restart the task, or write into another table "
        "(table.name.format)"
    )


def refuse_obstacles(obstacles: Sequence[Obstacle], place: str, path: str, *, was_written: bool) -> None:
    """Raises UnsuitableTable for a table whose rows Spark must write, or ConnectError if the worker has written rows before it
    was altered. Names everything that must be undone, in order."""
    if not obstacles:
        return
    reasons = " and ".join(obstacle.reason for obstacle in obstacles)
    if not was_written:
        raise UnsuitableTable(reasons)
    remedy = "Write"
    if all(obstacle.remedy for obstacle in obstacles):
        statements = "; ".join(f"ALTER TABLE {table_at(path)} {obstacle.remedy}" for obstacle in obstacles)
        remedy = f"Undo it with {statements} and restart the task, or write"
    raise ConnectError(
        f"{place} was altered in a way that the connector does not support: {reasons}. {remedy} into another table "
        "(table.name.format)"
    )


def refuse_written_by_both(stored: StoredOffsets, place: str) -> None:
    """Raises ConnectError for a table that Spark has written for the connector if the worker did so, too: Spark keeps offsets in
    the table's history, the worker in its state, and neither says what the other has written."""
    if stored.all_ends():
        raise ConnectError(
            f"{place} has rows of the connector that the worker wrote and rows that Spark wrote (spark.remote), with offsets in "
            "two places, so that none says what the table contains. Write into another table (table.name.format), or stop the "
            "connector, delete its offsets over REST (DELETE /connectors/<name>/offsets) to load all records again, and resume it"
        )


def refuse_written_by_worker(stored: StoredOffsets, place: str) -> None:
    """Raises ConnectError if Spark is to write a table that the worker has written for the connector."""
    if stored.all_ends():
        raise ConnectError(
            f"{place} has rows of the connector that the worker wrote, with offsets that Spark Connect cannot move. Continue "
            "with Spark in the worker's own JVM (remove spark.remote), or write into another table (table.name.format)"
        )


def check_not_replaced(log: DeltaLog, version: int, connector: str, place: str) -> None:
    """Raises HistoryMoved when somebody replaced the rows after the connector's last commit, or while it was made: an append
    does not conflict with that."""
    checked = -1
    for logged in log.backwards(version):
        if logged.version <= checked:
            return
        own = logged.user_metadata
        # Only a commit that moves ends says what the table contains; one that adds a column may come after a RESTORE.
        if own is not None and own.connector == connector and own.ends:
            checked = min(logged.read_version, checked) if checked >= 0 else logged.read_version
        else:
            refuse_replacement(logged, place)


def refuse_replacement(logged: LoggedCommit, place: str) -> None:
    """Raises HistoryMoved for a commit that replaced the rows."""
    if logged.effect & Effect.MOVES_HISTORY:
        raise HistoryMoved(
            f"{place}: {logged.operation} replaced the table's rows in version {logged.version}, so the connector's offsets no "
            "longer say what the table contains. Stop the connector, set its offsets over REST to what the table contains "
            "(PATCH /connectors/<name>/offsets) or delete them to load all records again, and resume it"
        )
