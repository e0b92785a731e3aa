"""Decides whether the worker may write the files of a Delta table itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from connectors.spark.plan.evolution import sql_type
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.delta.partition_values import has_text

_SUPPORTED_FEATURES = {
    "appendOnly",
    "invariants",
    "timestampNtz",
    "deletionVectors",
    "changeDataFeed",
    "v2Checkpoint",
    "vacuumProtocolCheck",
    "clustering",
    "domainMetadata",
}
_UNSUPPORTED_SETTINGS = (
    "delta.columnMapping.mode",
    "delta.constraints.",
    "delta.enableRowTracking",
    "delta.universalFormat",
    "delta.enableIceberg",
)


class UnsuitableTable(Exception):
    """The table has a feature that only Delta's own writer supports."""


def find_layout_obstacle(layout: TableLayout) -> str | None:
    """Why the worker may not place the rows of a table with this layout; None when it may."""
    for name in layout.partition_columns:
        if not has_text(layout.columns[name]):
            return f"it is partitioned by column {name} of type {sql_type(layout.columns[name])}"
    for name in layout.clustering_columns:
        if name not in layout.columns:
            return f"it is clustered by the nested column {name}"
    return None


def find_obstacle(metadata: Mapping[str, Any], protocol: Mapping[str, Any], *, upserts: bool) -> str | None:
    """Why a table with this metadata and protocol needs Spark to write its rows; None when the worker may write them.

    Upserts need deletion vectors, which are not turned on for existing tables: readers that do not know them could not read the
    table any more.
    """
    for key in metadata.get("configuration", {}):
        if key.startswith(_UNSUPPORTED_SETTINGS) and metadata["configuration"][key] not in ("none", "false"):
            return f"it has {key}"
    if upserts and metadata.get("configuration", {}).get("delta.enableDeletionVectors") != "true":
        return "it has no deletion vectors (delta.enableDeletionVectors)"
    features = set(protocol.get("writerFeatures") or ())
    if not features and int(protocol.get("minWriterVersion", 2)) > 2:
        return f"its writer version is {protocol.get('minWriterVersion')}"
    if features - _SUPPORTED_FEATURES:
        return f"it has the features {', '.join(sorted(features - _SUPPORTED_FEATURES))}"
    for member in json.loads(metadata["schemaString"])["fields"]:
        if set(member.get("metadata", {})) - {"comment"} or not member.get("nullable", True):
            return f"column {member['name']} has a constraint or column metadata"
    return None
