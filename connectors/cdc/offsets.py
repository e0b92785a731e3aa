"""What the offsets of all connectors have, with Debezium's names."""

from __future__ import annotations

PARTITION_KEY = "server"

# The keys of a transaction in progress: its ID, and the number of its events by table.
TRANSACTION_ID = "transaction_id"
TRANSACTION_COUNT = "transaction_data_collection_order_"

INCREMENTAL = "INCREMENTAL"
"""Debezium's mark of offsets of rows of an incremental snapshot, which have the position of the stream."""

CONTRACTS = "schema_contracts"
"""Our own key: the schema contracts of tables (:mod:`connectors.cdc.schema.contracts`)."""


def source_partition(topic_prefix: str) -> dict[str, str]:
    """The source partition of a connector."""
    return {PARTITION_KEY: topic_prefix}
