"""What the metadata file of an Iceberg table says: schemas, partition specs, and the history of snapshots.

Format: "Table Metadata" of Iceberg's specification. The version of a snapshot is its sequence number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.spark.source.errors import UnsupportedTableError

Json = Mapping[str, Any]
_NEWEST_FORMAT = 3
REPLACE = "replace"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot of the table. ``parent`` is None for the first one."""

    id: int
    parent: int | None
    version: int
    ts_ms: int
    operation: str
    manifest_list: str
    schema_id: int | None

    def __str__(self) -> str:
        return f"{self.id} (version {self.version})"


@dataclass(frozen=True, slots=True)
class TableMetadata:
    """A version of the metadata file. ``source`` is its location."""

    table_id: str
    source: str
    location: str
    last_version: int
    """The highest version that a snapshot of any branch has."""
    current_id: int | None
    """The newest snapshot of the main branch; None without rows."""
    snapshots: Mapping[int, Snapshot]
    schemas: Mapping[int, Json]
    current_schema_id: int
    specs: Mapping[int, Json]
    properties: Mapping[str, str] = field(default_factory=dict)

    @property
    def current(self) -> Snapshot | None:
        return None if self.current_id is None else self.snapshots.get(self.current_id)

    @property
    def current_version(self) -> int:
        """The newest version; 0 without rows."""
        return 0 if self.current is None else self.current.version

    def history(self) -> list[Snapshot]:
        """The snapshots of the main branch, oldest first. Those that have expired are missing at the start."""
        found = []
        snapshot = self.current
        while snapshot is not None:
            found.append(snapshot)
            snapshot = None if snapshot.parent is None else self.snapshots.get(snapshot.parent)
        return found[::-1]

    def schema_of(self, snapshot: Snapshot) -> Json:
        """The schema of the table when the snapshot was committed."""
        current = self.schemas[self.current_schema_id]
        return current if snapshot.schema_id is None else self.schemas.get(snapshot.schema_id, current)

    def read_schema(self, snapshot: Snapshot) -> Json:
        """The schema with which all rows of a snapshot are read: of the newest one the table's own."""
        return self.schemas[self.current_schema_id] if snapshot.id == self.current_id else self.schema_of(snapshot)


def parse_metadata(node: Json, source: str, name: str) -> TableMetadata:
    """Parses the content of a metadata file. ``name`` is that of the table in messages. Raises UnsupportedTableError."""
    version = int(node["format-version"])
    if version == 1:
        raise UnsupportedTableError(
            f"table {name} has the format version 1, whose snapshots have no sequence numbers. Upgrade it with Spark (ALTER "
            "TABLE ... SET TBLPROPERTIES ('format-version' = '2')), which changes no file"
        )
    if version > _NEWEST_FORMAT:
        raise UnsupportedTableError(
            f"table {name} has the format version {version}, and SparkSource reads up to {_NEWEST_FORMAT}. Copy it into a table "
            "with an older version with Spark, and read the copy"
        )
    current = node.get("current-snapshot-id")
    refs = node.get("refs") or {}
    if "main" in refs:
        current = refs["main"]["snapshot-id"]
    return TableMetadata(
        table_id=str(node["table-uuid"]),
        source=source,
        location=str(node["location"]).rstrip("/"),
        last_version=int(node.get("last-sequence-number", 0)),
        current_id=None if current in (None, -1) else int(current),
        snapshots={one.id: one for one in map(_snapshot, node.get("snapshots") or ())},
        schemas={int(schema["schema-id"]): schema for schema in node["schemas"]},
        current_schema_id=int(node["current-schema-id"]),
        specs={int(spec["spec-id"]): spec for spec in node["partition-specs"]},
        properties=node.get("properties") or {},
    )


def divides_rows(spec: Json) -> bool:
    """Whether a partition spec has partitions: fields that were dropped may remain with the transform void."""
    return any(field["transform"] != "void" for field in spec.get("fields") or ())


def _snapshot(node: Json) -> Snapshot:
    schema = node.get("schema-id")
    return Snapshot(
        id=int(node["snapshot-id"]),
        parent=node.get("parent-snapshot-id"),
        version=int(node.get("sequence-number", 0)),
        ts_ms=int(node["timestamp-ms"]),
        operation=str((node.get("summary") or {}).get("operation", "overwrite")),
        manifest_list=str(node.get("manifest-list") or ""),
        schema_id=None if schema is None else int(schema),
    )
