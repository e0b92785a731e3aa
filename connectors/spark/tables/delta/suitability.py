"""Decides whether the worker may write the files of a Delta table itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from connectors.spark.plan.evolution import quote, sql_type
from connectors.spark.tables.delta.layout import TableLayout
from connectors.spark.tables.files.partition_values import has_text

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
    "typeWidening",
    "variantType",
    "variantType-preview",
    # Features without effect unless a property or a column uses them, which is checked on its own. They stay in the protocol when
    # the last constraint or default is dropped.
    "checkConstraints",
    "columnMapping",
    "generatedColumns",
    "allowColumnDefaults",
}
_NEWEST_LEGACY_WRITER = 5
"""Writer versions up to this one consist of features of the list above."""
_TYPE_CHANGES = "delta.typeChanges"
_ALLOWED_METADATA = {"comment", _TYPE_CHANGES}
_MAPPING = "delta.columnMapping.mode"
_CONSTRAINT = "delta.constraints."
_UNSUPPORTED_SETTINGS = (_MAPPING, _CONSTRAINT, "delta.enableRowTracking", "delta.universalFormat", "delta.enableIceberg")
_VECTORS = "delta.enableDeletionVectors"


class UnsuitableTable(Exception):
    """The table has a feature that only Delta's own writer supports."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why Spark must write a table's rows, and how to remove the reason."""

    reason: str
    remedy: str
    """A clause of ALTER TABLE; empty if the table cannot be altered back."""


def find_layout_obstacle(layout: TableLayout) -> Obstacle | None:
    """Why the worker may not place the rows of a table with this layout; None when it may."""
    for name in layout.partition_columns:
        if not has_text(layout.columns[name]):
            return Obstacle(f"it is partitioned by column {name} of type {sql_type(layout.columns[name])}", "")
    for name in layout.clustering_columns:
        if name not in layout.columns:
            return Obstacle(f"it is clustered by the nested column {name}", "CLUSTER BY NONE")
    return None


def find_obstacle(metadata: Mapping[str, Any], protocol: Mapping[str, Any], *, upserts: bool) -> Obstacle | None:
    """Why a table with this metadata and protocol needs Spark to write its rows; None when the worker may write them.

    Upserts need deletion vectors, which are not turned on for existing tables: readers that do not know them could not read the
    table any more.
    """
    settings = metadata.get("configuration", {})
    for key, value in settings.items():
        if key.startswith(_UNSUPPORTED_SETTINGS) and value not in ("none", "false"):
            return Obstacle(f"it has {key}", _remedy_for_setting(key))
    if upserts and settings.get(_VECTORS) != "true":
        return Obstacle(f"it has no deletion vectors ({_VECTORS})", f"SET TBLPROPERTIES ('{_VECTORS}' = 'true')")
    features = set(protocol.get("writerFeatures") or ())
    version = int(protocol.get("minWriterVersion", 2))
    if not features and version > _NEWEST_LEGACY_WRITER:
        return Obstacle(f"its writer version is {version}", "")
    if unsupported := sorted(features - _SUPPORTED_FEATURES):
        return Obstacle(f"it has the features {', '.join(unsupported)}", f"DROP FEATURE {unsupported[0]}")
    for member in json.loads(metadata["schemaString"])["fields"]:
        name, remedy = member["name"], f"ALTER COLUMN {quote(member['name'])} "
        if not member.get("nullable", True):
            return Obstacle(f"column {name} is NOT NULL", f"{remedy}DROP NOT NULL")
        extra = set(member.get("metadata", {})) - _ALLOWED_METADATA
        if extra:
            default = f"{remedy}DROP DEFAULT" if "CURRENT_DEFAULT" in extra else ""
            return Obstacle(f"column {name} has {', '.join(sorted(extra))}", default)
        if any(change.get("fromType") == "date" for change in member.get("metadata", {}).get(_TYPE_CHANGES, ())):
            return Obstacle(f"column {name} was a date before it became a timestamp", "")
    return None


def _remedy_for_setting(key: str) -> str:
    if key.startswith(_CONSTRAINT):
        return f"DROP CONSTRAINT {quote(key.removeprefix(_CONSTRAINT))}"
    return f"SET TBLPROPERTIES ('{key}' = '{'none' if key == _MAPPING else 'false'}')"
