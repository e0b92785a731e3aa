"""A snapshot of an Iceberg table."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyarrow import fs

from connectors.spark.plan.row_limits import RowLimits, with_requirements
from connectors.spark.tables.iceberg.columns import NAME_MAPPING
from connectors.spark.tables.iceberg.data_files import IcebergFileWriter
from connectors.spark.tables.iceberg.offsets import WRITER, TableOffsets
from connectors.spark.tables.iceberg.partitioning import Partitioning
from connectors.spark.tables.iceberg.types import Json, read_columns
from connectors.spark.tables.key_property import KEY_PROPERTY, read_key
from connectors.spark.tables.source_order.order_state import FOLDER, OrderStateFiles
from connectors.spark.tables.staging import local_folder, path_in_file_system
from connectors.spark.tables.table_format import View
from connectors.spark.tables.table_lock import commit_lock

_VECTORS_VERSION = 3


@dataclass(slots=True, kw_only=True)
class IcebergView(View):
    """``version`` is the snapshot; 0 while the table is empty. ``state`` is what ``read`` in ``IcebergTables.java`` returns."""

    state: Json
    sequence: int
    """Of the snapshot: later ones have higher numbers."""
    offsets: TableOffsets
    partitioning: Partitioning
    writer: IcebergFileWriter

    @property
    def has_vectors(self) -> bool:
        return int(self.state["format"]) >= _VECTORS_VERSION

    @property
    def has_old_ends(self) -> bool:
        return self.offsets.snapshot not in (0, self.version)


def shape_of(state: Json) -> object:
    """What decides which files are written, and how they are read: another name mapping has them have other columns."""
    parts = tuple(state[part] for part in ("schema", "spec", "format", "location", "data"))
    return (*parts, *(state["properties"].get(name) for name in (NAME_MAPPING, KEY_PROPERTY)))


def has_branches(state: Json) -> bool:
    """Whether a connector has written another branch than main."""
    return any(name.startswith(WRITER) and "@" in name for name in state["properties"])


def describe(state: Json, offsets: TableOffsets, files: fs.FileSystem, row_group: int) -> IcebergView:
    """The view of a state with these offsets, whose files are in this file system."""
    partitioning = Partitioning.read(state["spec"], state["schema"])
    folder = str(state["data"]).rpartition("/")[0]
    order_files = OrderStateFiles(files, f"{path_in_file_system(folder)}/{FOLDER}")
    order_files.are_shared = has_branches(state)
    return IcebergView(
        version=int(state.get("snapshot", 0)),
        table_id=state["uuid"],
        columns=read_columns(state["schema"]),
        limits=RowLimits(tuple(dict.fromkeys(partitioning.columns)), with_requirements(state["schema"]["fields"])),
        shape=shape_of(state),
        ends=offsets.of_all(),
        order_state=offsets.order_state,
        order_files=order_files,
        lock=commit_lock(local_folder(f"{state['location']}/metadata")),
        keys=read_key(state["properties"]),
        state=state,
        sequence=int(state.get("sequence", 0)),
        offsets=offsets,
        partitioning=partitioning,
        writer=IcebergFileWriter(files, folder, state["schema"], partitioning.spec_id, row_group),
    )


def moved(view: IcebergView, snapshot: int, sequence: int, offsets: TableOffsets) -> IcebergView:
    """The view at another snapshot with the same shape."""
    ends, order_state = offsets.of_all(), offsets.order_state
    return replace(view, version=snapshot, sequence=sequence, offsets=offsets, ends=ends, order_state=order_state)
