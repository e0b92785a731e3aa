"""An append-only directory of Parquet files, written without Spark. Its state is in the names and footers of the files: see
:mod:`connectors.spark.tables.parquet.links`."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from connect import crash_points
from connect.errors import ConnectError, RetriableError, SchemaError
from connect.record import TopicPartition
from connectors.spark.config_keys import PARQUET
from connectors.spark.errors import explain, is_damaged_parquet
from connectors.spark.plan.evolution import Columns, cast_column
from connectors.spark.s3_settings import S3Settings
from connectors.spark.tables.application_ids import Identify, known_identity, require_same_topic
from connectors.spark.tables.files.file_writer import bounded_columns
from connectors.spark.tables.format_folders import refuse_other_format
from connectors.spark.tables.parquet.files import open_table_files
from connectors.spark.tables.parquet.links import (
    COLUMNS_FOLDER,
    EARLIER_FOLDER,
    ChainEnd,
    Link,
    LinkFooter,
    chain_of,
    columns_name,
    columns_number,
    is_of_earlier_release,
    newest_links,
    parse_footer,
    parse_link,
)
from connectors.spark.tables.table import Defaults, OffsetCommit, TableState, Upsert

log = logging.getLogger(__name__)


class ParquetTable:
    """The table of one connector (:class:`connectors.spark.tables.table.Table`). Not thread-safe.

    A commit is one file, with the records of one partition. Of two tasks that both believe they own a partition, only one can
    create the file that continues its chain. The version of a commit is the end of its partition.
    """

    def __init__(self, path: str, connector: str, identify: Identify, s3: S3Settings | None = None) -> None:
        self._path = path
        self._files = open_table_files(path, s3)
        self._connector = connector
        self._identify = identify
        self._columns: Columns = {}
        self._columns_number = 0
        self._ends: dict[TopicPartition, ChainEnd] = {}

    @property
    def path(self) -> str:
        return self._path

    def load(self, partitions: Collection[TopicPartition]) -> TableState:
        for footer in self._load(partitions):
            present = self._identify(footer.partition.topic)
            if footer.identity is not None and present is not None and footer.after.has_offset:
                claim = f"table {self._path} holds {footer.partition} up to offset {footer.after.offset}"
                require_same_topic(claim, footer.partition.topic, footer.identity, present)
        return TableState(self._columns or None, self._known_ends(), one_partition=True)

    def create(self, columns: Columns, keys: Sequence[str]) -> None:
        with self._explained("cannot read"):
            refuse_other_format(PARQUET, self._path, lambda name: bool(self._files.names_in(name)))
        self._add_columns(columns)

    def add_columns(self, added: list[tuple[str, pa.DataType]], columns: Columns, defaults: Defaults) -> None:
        self._add_columns(columns)

    def widen_columns(self, widened: list[tuple[str, pa.DataType]]) -> None:
        raise ConnectError("the columns of a Parquet table cannot be widened")

    def set_keys(self, keys: Sequence[str]) -> None:
        """Does nothing: rows that are only appended have no key."""

    def file_target(self) -> None:
        return None

    def append(self, rows: pa.Table, commit: OffsetCommit) -> int | None:
        ((partition, (first, end)),) = commit.ranges.items()
        at: ChainEnd | None = self._ends.get(partition)
        if at is None:
            return None
        if self._identify(partition.topic) is None:
            raise RetriableError(f"table at {self._path}: the brokers have no topic {partition.topic}, whose ID its files have")
        crash_points.point("spark.staged")
        if not at.has_offset:
            log.info("The table at %s has no offset of %s: its first record is that of offset %d", self._path, partition, first)
            at = self._add_link(partition, at, at._replace(offset=first))
        # Promise 6: the rows continue the chain, or they are not added. Records in between have no rows.
        if at is None or first < at.offset:
            return None
        return None if self._add_link(partition, at, at._replace(offset=end), rows) is None else end

    def upsert(self, upsert: Upsert, commit: OffsetCommit) -> int | None:
        raise ConnectError("a Parquet table can only append")

    def has_own_files(self) -> bool:
        """Whether the connector has written to the table. Raises ConnectError if damaged files, or files of an earlier release,
        may be its own, and OSError."""
        names = self._files.names_in("")
        links = [link for name in names if (link := parse_link(name)) is not None]
        damaged: dict[str, ConnectError] = {}
        known: set[str] = set()
        # Each file of a chain tells whose it is.
        for link in sorted(links, key=lambda link: link.at, reverse=True):
            if link.chain in known:
                continue
            try:
                footer = self._read_footer(link)
            except ConnectError as e:
                damaged[link.chain] = e
                continue
            if footer.connector == self._connector:
                return True
            known.add(link.chain)
        for chain in damaged.keys() - known:
            raise damaged[chain]
        self._refuse_earlier_kind(names)
        return False

    def stored_ends(self) -> Mapping[TopicPartition, int]:
        self._load(())
        return self._known_ends()

    def move_offsets(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        self._load(())
        for partition, offset in offsets.items():
            at = self._ends.get(partition, ChainEnd())
            after = ChainEnd(at.generation + 1) if offset is None else ChainEnd(at.generation + 1, offset)
            if self._add_link(partition, at, after, is_request=True) is None:
                raise RetriableError(f"table at {self._path}: a task committed at the same time; stop the connector first")

    def maintain(self, is_stopping: Callable[[], bool]) -> None:
        """Does nothing: a file that replaced others would show readers their rows twice, or not at all."""

    def progress(self) -> Mapping[str, Any]:
        return {}

    def _known_ends(self) -> dict[TopicPartition, int]:
        return {partition: end.offset for partition, end in self._ends.items() if end.has_offset}

    def _load(self, partitions: Collection[TopicPartition]) -> list[LinkFooter]:
        """Reads the columns and the ends of these partitions, or of all. Returns the footers that have the ends."""
        with self._explained("cannot read"):
            names = self._files.names_in("")
            self._refuse_earlier_kind(names)
            self._files.delete_temporary_files(names)
            newest = newest_links(names)
            chains = {chain_of(self._connector, partition) for partition in partitions} if partitions else newest.keys()
            found = [self._read_footer(link) for chain, link in newest.items() if chain in chains]
            self._load_columns(bool(newest), max((footer.columns for footer in found), default=0))
        own = [footer for footer in found if footer.connector == self._connector]
        self._ends = dict.fromkeys(partitions, ChainEnd()) | {footer.partition: footer.after for footer in own}
        return own

    def _refuse_earlier_kind(self, names: Collection[str]) -> None:
        if any(map(is_of_earlier_release, names)) or self._files.names_in(EARLIER_FOLDER):
            raise ConnectError(
                f"the table at {self._path} was written by an earlier release, whose offsets this one does not read. Move the "
                "directory away, and restart the task: it continues in a new directory at the offsets of its consumer group"
            )

    def _load_columns(self, is_present: bool, stated: int) -> None:
        """``stated`` is the newest number that the files name. Columns are needed if there are files."""
        names = self._files.names_in(COLUMNS_FOLDER)
        self._files.delete_temporary_files(names)
        number = max(map(columns_number, names), default=0)
        if number < stated or (is_present and not number):
            raise ConnectError(
                f"the table at {self._path} has lost the file with its columns, {columns_name(stated or 1)} below it: restore "
                "it, or move the directory away, and restart the task, which continues in a new one at the offsets of its "
                "consumer group"
            )
        self._columns_number, self._columns = number, {}
        if number:
            with self._files.open_input(columns_name(number)) as file:
                self._columns = _columns_of(pq.read_schema(file))

    def _add_columns(self, columns: Columns) -> None:
        with self._explained("cannot write to"):
            if not self._columns_number:
                self._files.make_folder(COLUMNS_FOLDER)
            # If the name is taken, the caller reads the columns of the task that took it.
            self._put(columns_name(self._columns_number + 1), _encode(pa.schema(list(columns.items())).empty_table(), {}))

    def _read_footer(self, link: Link) -> LinkFooter:
        with self._files.open_input(link.name) as file:
            try:
                metadata = pq.read_metadata(file).metadata
            except (pa.ArrowInvalid, OSError) as e:
                if isinstance(e, OSError) and not is_damaged_parquet(e):
                    raise
                raise ConnectError(f"the file {self._path}/{link.name} is damaged ({e}): restore it from a backup") from e
            return parse_footer(metadata, f"{self._path}/{link.name}")

    def _add_link(
        self,
        partition: TopicPartition,
        at: ChainEnd,
        after: ChainEnd,
        rows: pa.Table | None = None,
        *,
        is_request: bool = False,
    ) -> ChainEnd | None:
        """Adds the file that leads from one end to another, durably. Returns None if there is another file at this end; then the
        table must be read again. After an error, it may exist."""
        assert at < after
        identity = None if is_request else self._identify(partition.topic)
        if identity is not None:
            known_identity(identity, partition.topic)
        footer = LinkFooter(uuid.uuid4().hex, self._connector, partition, identity, at, after, self._columns_number)
        link = Link(chain_of(self._connector, partition), at)
        with self._explained("cannot write to"):
            content = _encode(_with_columns(rows, self._columns), footer.to_metadata())
            crash_points.point("parquet.encoded")
            created = self._put(link.name, content)
            # A client or network file system that repeats a request finds its own file.
            if not created and self._read_footer(link).id != footer.id:
                return None
        self._ends[partition] = after
        return after

    def _put(self, name: str, content: pa.Buffer) -> bool:
        try:
            return self._files.put_if_absent(name, content)
        except FileNotFoundError as e:
            raise ConnectError(
                f"the table at {self._path} was removed while this task wrote to it; to continue with a new table, restart the "
                "connector, after a reset of its offsets if all records should be read again"
            ) from e

    @contextmanager
    def _explained(self, doing: str) -> Iterator[None]:
        try:
            yield
        except OSError as e:
            raise explain(e, f"{doing} {self._path}") from e


def _columns_of(schema: pa.Schema) -> Columns:
    return {member.name: member.type for member in schema}


def _with_columns(rows: pa.Table | None, columns: Columns) -> pa.Table:
    """The rows with all columns of the table, so that each file has them."""
    schema = pa.schema(list(columns.items()))
    if rows is None:
        return schema.empty_table()
    found = set(rows.column_names) - {""}
    if found - columns.keys():
        raise SchemaError(f"the table lacks the columns {', '.join(sorted(found - columns.keys()))}")
    arrays = [
        cast_column(rows[name], type_, name) if name in found else pa.nulls(rows.num_rows, type_)
        for name, type_ in columns.items()
    ]
    return pa.table(arrays, schema=schema)


def _encode(rows: pa.Table, metadata: Mapping[bytes, bytes]) -> pa.Buffer:
    stream = pa.BufferOutputStream()
    statistics = bounded_columns(rows.schema, rows)
    pq.write_table(rows.replace_schema_metadata(metadata), stream, compression="zstd", write_statistics=statistics)
    return stream.getvalue()
