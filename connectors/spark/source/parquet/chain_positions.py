"""Offsets of a Parquet table of the sink: up to which end the files of each chain are done, and how many rows of the next one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from connectors.spark.source.offsets import ROW, SNAPSHOT, VERSION, find_member_problem, require_valid
from connectors.spark.source.parquet.positions import FIRST_ROW
from connectors.spark.tables.parquet.links import ChainEnd

CHAINS, CHAIN = "chains", "chain"
MEMBERS = (VERSION, SNAPSHOT, CHAINS, CHAIN, ROW, FIRST_ROW)


@dataclass(frozen=True, slots=True)
class OpenLink:
    """The next file of a chain, of which ``row`` rows are done. ``first_row`` counts the rows of the version before it."""

    chain: str
    row: int
    first_row: int


@dataclass(frozen=True, slots=True)
class ChainsPosition:
    """What the feed of a table delivers next (:class:`connectors.spark.source.offsets.StorablePosition`)."""

    version: int
    snapshot: bool
    ends: Mapping[str, ChainEnd]
    current: OpenLink | None = None
    topics: Mapping[str, str] = field(default_factory=dict)
    """By chain: the ID of the topic whose records its last file has. A file that moves the offset has none, and offsets of
    earlier releases do not say it."""

    def at_row(self, current: OpenLink) -> ChainsPosition:
        """The position in a file."""
        return replace(self, current=current)

    def at_end(self, chain: str, end: ChainEnd) -> ChainsPosition:
        """The position where the files of a chain are done up to this end."""
        return replace(self, ends={**self.ends, chain: end}, current=None)

    def with_topic(self, chain: str, topic: str | None) -> ChainsPosition:
        """The position with another topic of a chain."""
        others = {other: known for other, known in self.topics.items() if other != chain}
        return replace(self, topics=others if topic is None else {**others, chain: topic})

    def without(self, chain: str) -> ChainsPosition:
        """The position of a table that has no files of this chain yet."""
        others = {other: end for other, end in self.ends.items() if other != chain}
        return replace(self.with_topic(chain, None), ends=others, current=None)

    def to_offset(self) -> dict[str, Any]:
        """See :class:`connectors.spark.source.offsets.StorablePosition`."""
        # As a text: values of offsets are primitive.
        known = {chain: (*end, self.topics[chain]) if chain in self.topics else end for chain, end in self.ends.items()}
        chains = json.dumps(known, separators=(",", ":"), sort_keys=True)
        offset: dict[str, Any] = {VERSION: self.version, SNAPSHOT: self.snapshot, CHAINS: chains}
        if self.current is not None:
            offset |= {CHAIN: self.current.chain, ROW: self.current.row, FIRST_ROW: self.current.first_row}
        return offset


def parse_chains_offset(offset: Mapping[str, Any]) -> ChainsPosition:
    """Parses a stored offset. Raises DataError."""
    require_valid(offset, find_chains_offset_problem)
    chain = offset.get(CHAIN)
    current = None if chain is None else OpenLink(chain, offset.get(ROW) or 0, offset.get(FIRST_ROW) or 0)
    ends, topics = _parse_chains(offset[CHAINS])
    return ChainsPosition(offset.get(VERSION) or 0, bool(offset.get(SNAPSHOT)), ends, current, topics)


def is_chains_offset(offset: Mapping[str, Any]) -> bool:
    """Whether an offset is one of a Parquet table of the sink."""
    return offset.get(CHAINS) is not None


def find_chains_offset_problem(offset: Mapping[str, Any]) -> str | None:
    """What is wrong with an offset; None if nothing is."""
    integers = (VERSION, ROW, FIRST_ROW)
    problem = find_member_problem(offset, MEMBERS, integers=integers, texts=(CHAINS, CHAIN), booleans=(SNAPSHOT,))
    if problem is not None:
        return problem
    try:
        ends, _ = _parse_chains(offset[CHAINS])
    except (ValueError, TypeError, AttributeError) as e:
        return f"{CHAINS} must be a text that the connector has stored: {e}"
    if offset.get(CHAIN) is not None and offset[CHAIN] not in ends:
        return f"{CHAIN} must be one of {CHAINS}"
    return None


def _parse_chains(text: str) -> tuple[dict[str, ChainEnd], dict[str, str]]:
    """The ends and the topics of the chains."""
    ends: dict[str, ChainEnd] = {}
    topics: dict[str, str] = {}
    for chain, (generation, end, *topic) in json.loads(text).items():
        ends[str(chain)] = ChainEnd(int(generation), int(end))
        topics |= {str(chain): str(one) for one in topic[:1]}
    return ends, topics
