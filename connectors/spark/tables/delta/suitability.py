"""Decides whether the worker may write the files of a Delta table itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.spark.config_keys import COLUMN_MAPPING
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
_CATALOG_FEATURES = {"catalogManaged", "catalogOwned", "catalogOwned-preview", "coordinatedCommits-preview"}
"""A catalog makes the commits of the table. Without them, it would lose the table."""
_TYPE_CHANGES = "delta.typeChanges"
_ALLOWED_METADATA = {"comment", _TYPE_CHANGES}
_MAPPED_METADATA = "delta.columnMapping."
_CONSTRAINT = "delta.constraints."
_VECTORS = "delta.enableDeletionVectors"
_ALLOWED_PROPERTIES = (
    "delta.appendOnly",
    "delta.autoOptimize",
    "delta.checkpoint",
    "delta.columnMapping.maxColumnId",
    "delta.compatibility.symlinkFormatManifest.",
    "delta.dataSkipping",
    "delta.deletedFileRetentionDuration",
    "delta.enableChangeDataFeed",
    _VECTORS,
    "delta.enableExpiredLogCleanup",
    "delta.enableFullRetentionRollback",
    "delta.enableTypeWidening",
    "delta.feature.",
    "delta.ignoreProtocolDefaults",
    "delta.isolationLevel",
    "delta.lastCommitTimestamp",
    "delta.lastUpdateVersion",
    "delta.logRetentionDuration",
    "delta.minReaderVersion",
    "delta.minWriterVersion",
    "delta.parquet.",
    "delta.random",
    "delta.requireCheckpointProtectionBeforeVersion",
    "delta.rowTracking.materialized",  # stays behind when row tracking is off
    "delta.sampleRetentionDuration",
    "delta.setTransactionRetentionDuration",  # refused with a message of its own
    "delta.targetFileSize",
    "delta.tuneFileSizesForRewrites",
    "delta.workloadBasedColumns.",
)
"""Beginnings of the names of properties of Delta that ask nothing of who writes data files. Nor do properties of others."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why Spark must write a table's rows, and how to remove the reason."""

    reason: str
    remedy: str = ""
    """A clause of ALTER TABLE; empty if the table cannot be altered back."""


def find_obstacles(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], layout: TableLayout, *, upserts: bool
) -> list[Obstacle]:
    """All reasons for which a table needs Spark to write its rows, in the order in which to remove them; none when the worker
    may write them. What is not known to be harmless is an obstacle.

    Upserts need deletion vectors, which are not turned on for existing tables: readers that do not know them could not read the
    table any more.
    """
    members, settings = json.loads(metadata["schemaString"])["fields"], metadata.get("configuration") or {}
    return [
        *find_property_obstacles(settings, upserts=upserts),
        *(obstacle for member in members for obstacle in _in_field(_unmapped(member, settings), "")),
        *_in_layout(layout),
        *_in_features(protocol),  # a feature can be dropped once nothing uses it
    ]


def find_property_obstacles(settings: Mapping[str, str], *, upserts: bool) -> Iterator[Obstacle]:
    """Those of :func:`find_obstacles` that are in the table's properties."""
    for key, value in settings.items():
        if not key.startswith("delta.") or key.startswith(_ALLOWED_PROPERTIES) or value in ("none", "false"):
            continue
        if key.startswith(_CONSTRAINT):
            remedy = f"DROP CONSTRAINT {quote(key.removeprefix(_CONSTRAINT))}"
        elif key == COLUMN_MAPPING or value == "true":
            remedy = f"SET TBLPROPERTIES ('{key}' = '{'none' if key == COLUMN_MAPPING else 'false'}')"
        else:
            remedy = f"UNSET TBLPROPERTIES ('{key}')"
        yield Obstacle(f"it has {key}", remedy)
    if upserts and settings.get(_VECTORS) != "true":
        yield Obstacle(f"it has no deletion vectors ({_VECTORS})", f"SET TBLPROPERTIES ('{_VECTORS}' = 'true')")


def _in_features(protocol: Mapping[str, Any]) -> Iterator[Obstacle]:
    features = set(protocol.get("writerFeatures") or ())
    version = int(protocol.get("minWriterVersion", 2))
    if not features and version > _NEWEST_LEGACY_WRITER:
        yield Obstacle(f"its writer version is {version}")
    for feature in sorted(features - _SUPPORTED_FEATURES):
        if feature in _CATALOG_FEATURES:
            yield Obstacle(f"a catalog makes its commits (feature {feature})")
        else:
            yield Obstacle(f"it has the feature {feature}", f"DROP FEATURE {feature}")


def _unmapped(node: Any, settings: Mapping[str, str]) -> Any:
    """A part of the schema without the metadata that goes when the column mapping of the table is turned off."""
    if settings.get(COLUMN_MAPPING, "none") == "none":
        return node
    if isinstance(node, list):
        return [_unmapped(one, settings) for one in node]
    if not isinstance(node, dict):
        return node
    return {k: _unmapped(v, settings) for k, v in node.items() if not k.startswith(_MAPPED_METADATA)}


def _in_field(member: Mapping[str, Any], parent: str) -> Iterator[Obstacle]:
    """What is in the way in a column, or in a field of one."""
    name = parent + quote(member["name"])
    shown, metadata = name.replace("`", ""), member.get("metadata") or {}
    if not member.get("nullable", True):
        yield Obstacle(f"column {shown} is NOT NULL", f"ALTER COLUMN {name} DROP NOT NULL")
    if extra := sorted(metadata.keys() - _ALLOWED_METADATA):
        remedy = f"ALTER COLUMN {name} DROP DEFAULT" if "CURRENT_DEFAULT" in extra else ""
        yield Obstacle(f"column {shown} has {', '.join(extra)}", remedy)
    if any(change.get("fromType") == "date" for change in metadata.get(_TYPE_CHANGES, ())):
        yield Obstacle(f"column {shown} was a date before it became a timestamp")
    yield from _in_type(member["type"], name)


def _in_type(node: Any, name: str) -> Iterator[Obstacle]:
    if not isinstance(node, dict):
        return
    if node["type"] == "struct":
        for member in node["fields"]:
            yield from _in_field(member, f"{name}.")
        return
    for part, holds_null in (("elementType", "containsNull"), ("keyType", ""), ("valueType", "valueContainsNull")):
        if part in node:
            inner = f"{name}.{part.removesuffix('Type')}"
            if not node.get(holds_null, True):
                yield Obstacle(f"column {inner.replace('`', '')} is NOT NULL")
            yield from _in_type(node[part], inner)


def _in_layout(layout: TableLayout) -> Iterator[Obstacle]:
    for name in layout.partition_columns:
        if not has_text(layout.columns[name]):
            yield Obstacle(f"it is partitioned by column {name} of type {sql_type(layout.columns[name])}")
    for name in layout.clustering_columns:
        if name not in layout.columns:
            yield Obstacle(f"it is clustered by the nested column {name}", "CLUSTER BY NONE")
