"""Identifiers under which a table's state stores the end offset of a partition (promise 6)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import quote, unquote

from connect.errors import ConnectError, RetriableError
from connect.record import TopicPartition
from connect.sink import TopicIdentity

_PREFIX = "sluice"
_UNKNOWN = "-"
Identify = Callable[[str], TopicIdentity | None]
"""The identity of a topic, by its name; None when there is no such topic."""


class OtherTopicError(ConnectError):
    """A table's offsets are of a topic that was recreated since, or of another cluster."""


@dataclass(frozen=True, slots=True)
class PartitionId:
    """A partition of a topic that cannot be confused with a recreated topic, or with a topic of another cluster."""

    connector: str
    identity: TopicIdentity
    partition: TopicPartition

    def __str__(self) -> str:
        identity = self.identity
        # The topic's name is for people, and to find out that a topic was recreated.
        parts = (self.connector, identity.cluster_id, identity.topic_id, str(self.partition.partition), self.partition.topic)
        return ":".join([_PREFIX, *(quote(part, safe="") for part in parts)])


def parse_partition_id(text: str) -> PartitionId | None:
    """Parses an identifier; None when somebody else uses it."""
    parts = text.split(":")
    if len(parts) != 6 or parts[0] != _PREFIX or not parts[4].isdecimal():
        return None
    connector, cluster, topic_id, partition, topic = map(unquote, parts[1:])
    return PartitionId(connector, TopicIdentity(cluster, topic_id), TopicPartition(topic, int(partition)))


def spark_writer_id(connector: str, table: str) -> str:
    """The identifier of commits that Spark makes for a connector. Its version is the newest one's sequence, not an offset."""
    return f"{_PREFIX}:{connector}:{table}"


class StoredOffsets:
    """The end offsets of one connector in a table's transaction identifiers."""

    def __init__(self, versions: Mapping[str, int], connector: str) -> None:
        self._ends: dict[PartitionId, int] = {}
        for text, version in versions.items():
            found = parse_partition_id(text)
            if found is not None and found.connector == connector:
                self._ends[found] = version

    def __bool__(self) -> bool:
        return bool(self._ends)

    def partition_ids(self, partition: TopicPartition) -> list[PartitionId]:
        """All identifiers of a partition's name: more than one after its topic was recreated."""
        return [found for found in self._ends if found.partition == partition]

    def moved_ids(self, partition: TopicPartition, identify: Identify) -> list[PartitionId]:
        """The identifiers that get a new offset of a partition's name: those with an end. Without any, because its offset was
        deleted, that of the topic that has the name now."""
        known = self.partition_ids(partition)
        present = identify(partition.topic)
        if not known or present is None or any(self._ends[one] > 0 for one in known):
            return [one for one in known if self._ends[one] > 0] or known
        return [PartitionId(known[0].connector, present, partition)]

    def all_ends(self) -> dict[TopicPartition, int]:
        """The largest end offset of each partition's name, whatever topic it was."""
        ends: dict[TopicPartition, int] = {}
        for stored, end in self._ends.items():
            if end > 0:
                ends[stored.partition] = max(end, ends.get(stored.partition, 0))
        return ends

    def ends(self, identify: Identify, table: str) -> dict[TopicPartition, int]:
        """The end offset of each partition. An end of 0 stands for none: the offset was deleted.

        Raises OtherTopicError when rows come from a topic that has been recreated since, or from another cluster.
        """
        ends: dict[TopicPartition, int] = {}
        for stored, end in self._ends.items():
            if end <= 0:
                continue
            present = identify(stored.partition.topic)
            if present is None:
                continue  # nobody will read it
            claim = f"table {table} holds {stored.partition} up to offset {end}"
            require_same_topic(claim, stored.partition.topic, stored.identity, present)
            ends[stored.partition] = max(end, ends.get(stored.partition, 0))
        return ends


def require_same_topic(claim: str, topic: str, stored: TopicIdentity, present: TopicIdentity) -> None:
    """Raises OtherTopicError when records come from another topic than the present one of the name. ``claim`` says who has them,
    and up to which offset."""
    if stored == known_identity(present, topic):
        return
    where = "another cluster" if stored.cluster_id != present.cluster_id else "a topic that was recreated"
    raise OtherTopicError(
        f"{claim} from {where} (cluster {stored.cluster_id}, topic ID "
        f"{stored.topic_id}; the topic is now {present.topic_id} in cluster {present.cluster_id}). Stop the connector and reset "
        "its offsets over REST (DELETE /connectors/<name>/offsets) to read the new topic, or write it into another table"
    )


def is_id_of(text: str, connector: str) -> bool:
    """Whether an identifier may be the connector's. One that stands for Spark does not tell where the connector's name ends."""
    return text.startswith(spark_writer_id(connector, "")) or bool(StoredOffsets({text: 0}, connector))


def ids_of_connectors(versions: Mapping[str, int]) -> dict[str, int]:
    """Those of a table's transaction identifiers that change when a connector commits records."""
    return {text: version for text, version in versions.items() if text.startswith(f"{_PREFIX}:")}


def spark_writer_ids(versions: Mapping[str, int]) -> set[str]:
    """Those of a table's transaction identifiers that stand for connectors for which Spark writes it."""
    return {text for text in ids_of_connectors(versions) if parse_partition_id(text) is None}


def feeding_partitions(versions: Mapping[str, int]) -> frozenset[TopicPartition]:
    """All partitions that have an end among a table's transaction identifiers, whatever connector wrote their rows. A connector
    for which Spark writes counts as a partition of its own: its identifier does not say which ones feed it."""
    found = ((parse_partition_id(text), version) for text, version in versions.items())
    known = {one.partition for one, version in found if one is not None and version > 0}
    names = (text.removeprefix(f"{_PREFIX}:").rpartition(":")[0] for text in spark_writer_ids(versions))
    return frozenset(known | {TopicPartition(f"unknown topic of connector {name}", 0) for name in names})


def ids_of(partitions: Iterable[TopicPartition], connector: str, identify: Identify) -> dict[TopicPartition, str]:
    """The identifiers of partitions. Raises ConnectError for a topic without identity: its end would not be found again under
    another one, nor a recreated topic be noticed; RetriableError if there is no such topic."""
    ids = {}
    for tp in partitions:
        found = identify(tp.topic)
        if found is None:
            raise RetriableError(f"the brokers have no topic {tp.topic}, so no offsets of it are committed")
        ids[tp] = str(PartitionId(connector, known_identity(found, tp.topic), tp))
    return ids


def known_identity(identity: TopicIdentity, topic: str) -> TopicIdentity:
    """The identity. Raises ConnectError if it says nothing."""
    if _UNKNOWN in (identity.cluster_id, identity.topic_id):
        raise ConnectError(
            f"the brokers name no {'cluster ID' if identity.cluster_id == _UNKNOWN else 'ID'} of topic {topic}, so it cannot be "
            "told from a recreated topic, and nothing of it is committed. Upgrade them to Kafka 2.8 or newer"
        )
    return identity
