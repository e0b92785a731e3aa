"""The columns that Spark sees, and the table that a query means. Processes that only plan a query import no more."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from connect.errors import DataError
from connect.spool.segments import HEADERS
from connect.suggestions import did_you_mean

OP, TS, ROW_POSITION, UNCHANGED = "_op", "_ts", "_position", "_unchanged"
UTC = pa.timestamp("us", "UTC")
ADDED_COLUMNS = pa.schema([(OP, pa.string()), (TS, UTC), (ROW_POSITION, pa.string()), (UNCHANGED, pa.list_(pa.string()))])
"""Columns of typed rows after those of the table."""
RECORDS = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", UTC),
        ("timestampType", pa.int32()),
        ("headers", HEADERS),
    ]
)
"""The columns of Spark's Kafka source. ``offset`` is the number of the row in the spool."""


def topic_of_table(table: str, topics: Sequence[str]) -> str | None:
    """Returns the topic with this name, or the only one that ends with it after a dot; None if there is none.

    ``topics`` are in the order of their first records. A topic with this name counts only if no other one could be meant before:
    otherwise, the same query would read another topic from its next start on. Raises DataError if several could be meant.
    """
    found = [topic for topic in topics if topic == table or topic.endswith(f".{table}")]
    if found and found[0] != table and len(found) > 1:
        raise DataError(
            f"table {table} could be any of the topics {', '.join(found)}: use a name that only one of them ends with"
            + (f", or give the topic {table} another name with a transformation (RegexRouter)" if table in found else "")
        )
    return found[0] if found else None


def unknown_table(table: str, topics: Sequence[str]) -> DataError:
    """The error for a table without records."""
    seen = f"topics seen: {', '.join(topics)}" if topics else "the connector has written no record"
    last_parts = [topic.rpartition(".")[2] for topic in topics]
    near = did_you_mean(table, [*topics, *(".".join(topic.split(".")[-2:]) for topic in topics), *last_parts], "; ")
    return DataError(
        f"The connector has no record of table {table} yet, so its columns are not known ({seen}{near}). Check the option table, "
        "or give the columns with .schema(...)"
    )
