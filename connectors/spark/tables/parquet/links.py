"""Names and footers of the files of a Parquet table.

The files with the records of one connector from one partition are a chain. Each is named by the end of the one before it, and
says in its footer where the next one continues. A file is created only if its name is free, so each link has one winner, and a
writer that finds the name taken knows where the records go on. The last file of a chain has the offset of its partition (promise
6).

A chain begins with a file without rows that says at which offset. A request that moves the offset adds such a file, too, and
begins the next generation of names, because offsets may come again.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from connect.errors import ConnectError
from connect.record import TopicPartition
from connect.sink import TopicIdentity
from connectors.spark.config_keys import PARQUET
from connectors.spark.tables.format_folders import FORMAT_FOLDERS

PREFIX, SUFFIX = "sluice-", ".parquet"
FOLDER = "_sluice"
COLUMNS_FOLDER = FORMAT_FOLDERS[PARQUET]
EARLIER_FOLDER = f"{FOLDER}/entries"
"""A folder of tables that earlier releases wrote."""
FOOTER_KEY = b"sluice"
FORMAT = 2
NO_OFFSET = -1
_START = "start"
_LINK = re.compile(r"sluice-(?P<chain>.+-\d+-[0-9a-f]{16})-(?P<generation>\d{6})-(?P<offset>start|\d{20})\.parquet")
_COLUMNS = re.compile(rf"{COLUMNS_FOLDER}/(\d{{10}})\.parquet")
_SHOWN_CHARACTERS = 100
"""Of the topic, so that a name has at most 255 bytes."""


class ChainEnd(NamedTuple):
    """The end of a chain: the offset after its last record, or NO_OFFSET. Ends grow along a chain."""

    generation: int = 0
    offset: int = NO_OFFSET

    @property
    def has_offset(self) -> bool:
        return self.offset != NO_OFFSET


@dataclass(frozen=True, slots=True)
class Link:
    """A file's place: its chain, and the end at which it continues."""

    chain: str
    at: ChainEnd

    @property
    def name(self) -> str:
        """The name of the file."""
        offset = f"{self.at.offset:020d}" if self.at.has_offset else _START
        return f"{PREFIX}{self.chain}-{self.at.generation:06d}-{offset}{SUFFIX}"


@dataclass(frozen=True, slots=True)
class LinkFooter:
    """What a file says about itself."""

    id: str
    """Random, so that a writer knows its own file."""
    connector: str
    partition: TopicPartition
    identity: TopicIdentity | None
    """Of the topic; None after a request has moved the offset."""
    at: ChainEnd
    after: ChainEnd
    """Where the next file continues."""
    columns: int
    """The number of the table's columns (:func:`columns_name`), all of which the file has."""

    @property
    def topic_id(self) -> str | None:
        return None if self.identity is None else self.identity.topic_id

    def to_metadata(self) -> dict[bytes, bytes]:
        """The metadata of the file."""
        document = {
            "format": FORMAT,
            "id": self.id,
            "connector": self.connector,
            "topic": self.partition.topic,
            "partition": self.partition.partition,
            "cluster_id": None if self.identity is None else self.identity.cluster_id,
            "topic_id": self.topic_id,
            "generation": self.at.generation,
            "from": self.at.offset if self.at.has_offset else None,
            "next_generation": self.after.generation,
            "to": self.after.offset if self.after.has_offset else None,
            "columns": self.columns,
        }
        return {FOOTER_KEY: json.dumps(document, separators=(",", ":")).encode()}


def parse_footer(metadata: Mapping[bytes, bytes] | None, file: str) -> LinkFooter:
    """Parses the metadata of a file. Raises ConnectError that names the file."""
    try:
        document = json.loads((metadata or {})[FOOTER_KEY])
        if document["format"] != FORMAT:
            raise ConnectError(f"the file {file} has format {document['format']}, and this release knows only format {FORMAT}")
        topic_id = document["topic_id"]
        return LinkFooter(
            str(document["id"]),
            str(document["connector"]),
            TopicPartition(document["topic"], int(document["partition"])),
            None if topic_id is None else TopicIdentity(document["cluster_id"], topic_id),
            _end(document["generation"], document["from"]),
            _end(document["next_generation"], document["to"]),
            int(document["columns"]),
        )
    except (KeyError, TypeError, ValueError) as e:
        raise ConnectError(f"the footer of the file {file} is damaged ({e!r}): restore the file from a backup") from e


def _end(generation: Any, offset: Any) -> ChainEnd:
    return ChainEnd(int(generation), NO_OFFSET if offset is None else int(offset))


def chain_of(connector: str, partition: TopicPartition) -> str:
    """The name of a connector's chain for a partition. The topic is in it for people; the digest tells chains apart."""
    identity = "\n".join([connector, partition.topic, str(partition.partition)])
    digest = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
    shown = re.sub(r"[^A-Za-z0-9._-]", "_", partition.topic[:_SHOWN_CHARACTERS])
    return f"{shown}-{partition.partition}-{digest}"


def parse_link(name: str) -> Link | None:
    """Parses the name of a file; None for files of others."""
    found = _LINK.fullmatch(name)
    if found is None:
        return None
    offset = found["offset"]
    return Link(found["chain"], ChainEnd(int(found["generation"]), NO_OFFSET if offset == _START else int(offset)))


def newest_links(names: Iterable[str]) -> dict[str, Link]:
    """The last link of each chain."""
    newest: dict[str, Link] = {}
    for name in names:
        link = parse_link(name)
        if link is not None and (link.chain not in newest or newest[link.chain].at < link.at):
            newest[link.chain] = link
    return newest


def is_of_earlier_release(name: str) -> bool:
    """Whether an earlier release has written the file of this name into a table."""
    return name.startswith(PREFIX) and name.endswith(SUFFIX) and parse_link(name) is None


def columns_name(number: int) -> str:
    """The name of the file, without rows, that has the table's columns of this number. Each number is created once, so two tasks
    cannot add a column with different types."""
    return f"{COLUMNS_FOLDER}/{number:010d}{SUFFIX}"


def columns_number(name: str) -> int:
    """The number of a file of columns; 0 for any other file."""
    found = _COLUMNS.fullmatch(name)
    return 0 if found is None else int(found[1])
