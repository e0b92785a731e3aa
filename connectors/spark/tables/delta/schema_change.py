"""Adds columns to a Delta table by an action in the log. A statement would do the same, but its first run takes Spark seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from connectors.spark.plan.evolution import Columns, contains_timestamp_ntz, contains_variant, spark_json_field
from connectors.spark.tables.delta.log import Action


def new_columns(known: Columns, wanted: Columns) -> Columns | None:
    """The columns that the table lacks; None when only a statement can add them: nested fields, and types that need a table
    feature first."""
    new = {name: type_ for name, type_ in wanted.items() if name not in known}
    if any(wanted.get(name) != type_ for name, type_ in known.items()):
        return None
    if any(contains_timestamp_ntz(type_) or contains_variant(type_) for type_ in new.values()):
        return None
    return new


def metadata_action(metadata: Mapping[str, Any], new: Columns) -> Action:
    """The action that changes this metadata: it adds columns at the end, except for those that exist."""
    schema = json.loads(metadata["schemaString"])
    present = {member["name"].lower() for member in schema["fields"]}
    schema["fields"] += [spark_json_field(name, type_) for name, type_ in new.items() if name.lower() not in present]
    return {"metaData": {**metadata, "schemaString": json.dumps(schema, separators=(",", ":"))}}
