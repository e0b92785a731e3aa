"""Reads one Parquet table of the sink: each file once, along the chain of each partition.

The name of the file that follows is known (:mod:`connectors.spark.tables.parquet.links`), so nothing depends on when a file
appears in a listing, or on its modification time.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from connect.errors import ConnectError
from connectors.spark.source.config import LATEST, SNAPSHOT
from connectors.spark.source.errors import FileGapError
from connectors.spark.source.key_columns import check_keys
from connectors.spark.source.offsets import ROW
from connectors.spark.source.parquet.chain_positions import ChainsPosition, OpenLink
from connectors.spark.source.parquet.file_schemas import FileSchemas
from connectors.spark.source.parquet.listing import find_file, list_files
from connectors.spark.source.positioned_feed import FeedSettings, PositionedFeed
from connectors.spark.source.table_feed import (
    CREATE_CODE,
    READ_CODE,
    FeedBatch,
    FeedItem,
    FeedVersion,
    VersionEnd,
    Waiting,
    inserted,
)
from connectors.spark.tables.files.file_columns import open_parquet
from connectors.spark.tables.files.file_reader import FileRows
from connectors.spark.tables.files.live_files import LiveFile, is_storage_failure
from connectors.spark.tables.parquet.links import (
    COLUMNS_FOLDER,
    ChainEnd,
    Link,
    LinkFooter,
    columns_number,
    parse_footer,
    parse_link,
)

log = logging.getLogger(__name__)

_LISTING_SHARE = 10
"""Listing takes at most a tenth of the time."""


@dataclass(slots=True)
class _ListedChain:
    """The first and the last file of a chain, and the first one that was modified at the start of the feed or later."""

    oldest: ChainEnd
    newest: ChainEnd
    first_due: ChainEnd | None = None

    def add(self, at: ChainEnd, *, is_due: bool) -> None:
        self.oldest, self.newest = min(self.oldest, at), max(self.newest, at)
        if is_due and (self.first_due is None or at < self.first_due):
            self.first_due = at


class ChainFeed(PositionedFeed[ChainsPosition]):
    """The feed of the table at ``folder`` of a file system (:class:`connectors.spark.source.table_feed.TableFeed`).

    A version is what one listing found; its number is the time of the listing in ms since 1970, so that later events have a
    higher one even when offsets were reset.
    """

    def __init__(
        self, files: fs.FileSystem, folder: str, location: str, settings: FeedSettings, position: ChainsPosition | None
    ) -> None:
        """``location`` names the table in messages; without a position, the feed starts as the settings say."""
        super().__init__(settings.start, position)
        self._files = files
        self._folder = folder
        self._location = location
        self._settings = settings
        self._schemas = FileSchemas(location, {})
        self._next_listing = 0.0
        self._chains_left = 0
        self._last: dict[str, ChainEnd] = {}
        """By chain: the file that leads to the position, as far as it is known."""

    def figures(self) -> Mapping[str, Any]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        found: dict[str, Any] = {"phase": self._phase, "rows": self._rows, "lag_versions": self._chains_left}
        if self._position is not None:
            found["version"] = self._position.version
        return found

    # --- reading

    def items(self) -> Iterator[FeedItem]:
        """See :class:`connectors.spark.source.table_feed.TableFeed`."""
        self._read_columns()
        if self._position is None:
            self._position = self._first_position()
        if self._position.current is not None:
            yield from self._read(self._position.current)
            yield VersionEnd()
        while True:
            while time.monotonic() < self._next_listing:
                yield Waiting(is_idle=True)
            listed = self._list()
            # A chain that was not there before begins with its first file.
            ends = {chain: found.oldest for chain, found in listed.items()} | dict(self._position.ends)
            due = sorted(chain for chain, found in listed.items() if ends[chain] <= found.newest)
            for chain, found in listed.items():
                if found.newest < ends[chain]:
                    self._require_end(Link(chain, found.newest), ends[chain], self._position)
            version = max(self._position.version + 1, _now_ms()) if due else self._position.version
            self._position = replace(self._position, version=version, ends=ends)
            self._phase = "snapshot" if self._position.snapshot else "changes"
            row = 0
            for count, chain in enumerate(due):
                self._chains_left = len(due) - count
                while (end := self._position.ends.get(chain)) is not None and end <= listed[chain].newest:
                    row = yield from self._read(OpenLink(chain, 0, row))
            if due or self._position.snapshot:
                self._position = replace(self._position, snapshot=False)
                yield VersionEnd()
            self._chains_left = 0
            if not due:
                self._phase = "waiting"
                yield Waiting(is_idle=True)

    def _first_position(self) -> ChainsPosition:
        start = self._start
        if start == SNAPSHOT:
            return ChainsPosition(_now_ms(), True, {})
        position = ChainsPosition(_now_ms(), False, {})
        for chain, found in self._list().items():
            if found.first_due is not None:
                position = position.at_end(chain, found.first_due)
            else:
                footer = self._footer(Link(chain, found.newest))
                position = position.with_topic(chain, footer.topic_id).at_end(chain, footer.after)
        return position

    def _list(self) -> dict[str, _ListedChain]:
        began = time.monotonic()
        due_ms = None if self._start in (SNAPSHOT, LATEST) else int(self._start)
        found: dict[str, _ListedChain] = {}
        for file in list_files(self._files, self._folder, self._location):
            link = parse_link(file.name)
            if link is not None:
                is_due = due_ms is not None and file.modified_ms >= due_ms
                found.setdefault(link.chain, _ListedChain(link.at, link.at)).add(link.at, is_due=is_due)
        ended = time.monotonic()
        self._next_listing = ended + (ended - began) * (_LISTING_SHARE - 1)
        return found

    def _require_end(self, newest: Link, end: ChainEnd, position: ChainsPosition) -> None:
        """Raises FileGapError unless the last file of a chain leads to the end up to which its files are done."""
        if self._last.get(newest.chain) == newest.at:
            return
        link = newest
        # A listing may miss files that it has had before.
        while link.at < end and find_file(self._files, self._folder, link.name) is not None:
            footer = self._footer(link)
            self._require_topic(link, footer, position)
            link = Link(newest.chain, footer.after)
        if link == newest:
            return  # it was removed after the listing, and the next one shows what there is
        if link.at != end:
            raise self._begins_again(
                f"{link.name} follows the last one, {newest.name}, and not {Link(newest.chain, end).name}, which is to be read "
                "next"
            )
        self._last[newest.chain] = newest.at

    def _require_topic(self, link: Link, footer: LinkFooter, position: ChainsPosition) -> None:
        """Raises FileGapError if the file, which moves no offset, has records of another topic than the chain's last one."""
        known = position.topics.get(link.chain)
        if footer.topic_id is not None and known is not None and footer.topic_id != known:
            raise self._begins_again(
                f"{link.name} has records of a topic {footer.partition.topic} with the ID {footer.topic_id}, and the files that "
                f"were read before it are of one with the ID {known}"
            )

    def _read_columns(self) -> None:
        """Reads the columns that the table has, so that events of older files have them, too."""
        folder = f"{self._folder}/{COLUMNS_FOLDER}"
        infos = self._files.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        newest = max((f"{COLUMNS_FOLDER}/{info.base_name}" for info in infos), key=columns_number, default="")
        if columns_number(newest):
            with self._naming(newest), self._files.open_input_file(f"{self._folder}/{newest}") as stream:
                self._schemas.add(pq.read_schema(stream), {}, newest)

    def _read(self, current: OpenLink) -> Generator[FeedItem, None, int]:
        """The rows of a chain's next file, from the current one on. Returns the number of the row after them in its version."""
        position = self._position
        assert position is not None
        link = Link(current.chain, position.ends[current.chain])
        file = find_file(self._files, self._folder, link.name)
        if file is None:
            if not position.snapshot or current.row:
                raise self._gap(link, current.row)
            self._position = self._without(link, position)
            return current.first_row
        version = FeedVersion(self._location, position.version, file.modified_ms, position.snapshot, "")
        with self._naming(link.name), self._files.open_input_file(f"{self._folder}/{link.name}") as stream:
            parquet = open_parquet(stream)
            footer = parse_footer(parquet.metadata.metadata, f"{self._location}/{link.name}")
            self._require_topic(link, footer, position)
            position = position.with_topic(link.chain, footer.topic_id)
            schema = self._schemas.add(parquet.schema_arrow, {}, link.name)
            check_keys(self._settings.keys, schema, self._location)
            rows, first_row = parquet.metadata.num_rows, current.first_row
            after = position.at_end(link.chain, footer.after)
            in_file = cache(position.at_row(current).to_offset)
            row, code = current.row, READ_CODE if position.snapshot else CREATE_CODE

            def offset_after(done: int) -> dict[str, Any]:
                is_done = done - first_row == rows
                return after.to_offset() if is_done else {**in_file(), ROW: done - first_row}

            live = LiveFile(0, {}, link.name, file.size_bytes, rows)
            selected = FileRows(live, only=np.arange(row, rows) if row else None)
            for table in selected.read_open(parquet, schema.file_columns(), self._settings.batch_rows):
                first, row = row, row + table.num_rows
                self._position = after if row == rows else position.at_row(replace(current, row=row))
                self._rows += table.num_rows
                yield FeedBatch(version, schema, inserted(table, code), first_row + first, offset_after)
        self._position = after
        self._last[link.chain] = link.at
        return first_row + int(rows)

    def _without(self, gone: Link, position: ChainsPosition) -> ChainsPosition:
        """The position in a snapshot where the chain goes on after a file that is gone, or where it has no files."""
        links = (parse_link(file.name) for file in list_files(self._files, self._folder, self._location))
        ends = [link.at for link in links if link is not None and link.chain == gone.chain]
        following = min((end for end in ends if end > gone.at), default=None)
        if ends and following is None:
            raise self._gap(gone, 0)
        log.warning("The file %s of table %s is gone; the snapshot has what is there", gone.name, self._location)
        if following is None:
            return position.without(gone.chain)
        return position.with_topic(gone.chain, None).at_end(gone.chain, following)

    def _footer(self, link: Link) -> LinkFooter:
        with self._naming(link.name), self._files.open_input_file(f"{self._folder}/{link.name}") as stream:
            return parse_footer(pq.read_metadata(stream).metadata, f"{self._location}/{link.name}")

    # --- errors

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Names the file in errors of reading it."""
        try:
            yield
        except (pa.ArrowException, OSError) as e:
            if is_storage_failure(e):
                raise
            raise ConnectError(
                f"the file {name} of table {self._location} cannot be read: {e}. Restore the file from a backup"
            ) from e

    def _begins_again(self, problem: str) -> FileGapError:
        return FileGapError(
            f"the files of table {self._location} begin again: {problem}. All files were removed and others written, or the "
            "offset is wrong",
            "Stop the connector and DELETE its offsets to read what is there",
        )

    def _gap(self, link: Link, row: int) -> FileGapError:
        done = f" when {row} of its rows were done" if row else ""
        return FileGapError(
            f"the file {link.name} of table {self._location} was removed before its rows were read{done}, or the offset is wrong",
            "Restore the file, or stop the connector and DELETE its offsets to read what is there",
        )


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
