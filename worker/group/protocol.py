"""What the members of a worker group say to each other, in bytes (KIP-415, KIP-507).

Kafka's group coordinator carries these bytes without reading them: each member sends its metadata when it joins, the leader
answers with an assignment for each. Big-endian; a string is an int16 length and UTF-8, an array an int32 count; task -1 stands
for the connector's own instance.

Promise 10: Apache's workers read what is written here, and the other way round; the tests hold real bytes of theirs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TypeVar

from connect.errors import DataError
from worker.model import TaskId

PROTOCOL_TYPE = "connect"
"""The kind of group, as the coordinator lists it."""

NO_ERROR = 0
CONFIG_MISMATCH = 1
"""The leader has not read as much of the config topic as some member has: read it to its end and join again."""

_CONNECTOR_ITSELF = -1

_Work = tuple[tuple[str, ...], tuple[TaskId, ...]]
_NO_WORK: _Work = ((), ())
_T = TypeVar("_T")


class Protocol(Enum):
    """A form of the group protocol: its version on the wire, and the name it is offered by."""

    EAGER = (0, "default")
    """Everything stops before each join; an assignment is the whole of a member's work."""
    COMPATIBLE = (1, "compatible")
    """Work goes on while the group rebalances; an assignment says only what to start and what to stop."""
    SESSIONED = (2, "sessioned")
    """As COMPATIBLE, and requests between workers are signed with a session key."""

    @property
    def version(self) -> int:
        return self.value[0]

    @property
    def wire_name(self) -> str:
        return self.value[1]

    def offered(self) -> tuple[Protocol, ...]:
        """What a worker with this ``connect.protocol`` offers, the preferred first. The group takes the best that all offer."""
        best_first = (Protocol.SESSIONED, Protocol.COMPATIBLE, Protocol.EAGER)
        return tuple(protocol for protocol in best_first if protocol.version <= self.version)

    @classmethod
    def of_wire_name(cls, name: str) -> Protocol:
        """Raises DataError for a name that no worker offers."""
        for protocol in cls:
            if protocol.wire_name == name:
                return protocol
        raise DataError(f"the group speaks protocol {name!r}; expected one of {', '.join(p.wire_name for p in cls)}")

    @classmethod
    def of_setting(cls, value: str) -> Protocol:
        """The value of ``connect.protocol``: eager, compatible or sessioned, in any case. Raises DataError for another."""
        try:
            return cls[value.strip().upper()]
        except KeyError as e:
            raise DataError(f"connect.protocol={value} is none of eager, compatible, sessioned") from e


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader tells a member to do, and also what a member says it does (its allocation).

    In versions 1 and 2 ``connectors`` and ``tasks`` of a leader's answer are only those to start anew, and the ``revoked`` ones
    are to stop; in version 0 they are all there is to do.
    """

    version: int
    error: int = NO_ERROR
    leader: str = ""
    """Member id of the leader."""
    leader_url: str = ""
    config_offset: int = -1
    """The offset up to which the config topic must be read to act on this."""
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskId, ...] = ()
    delay_ms: int = 0
    """After this time every member is to join again, for the leader wants to assign what it holds back; 0: need not."""

    @property
    def failed(self) -> bool:
        return self.error != NO_ERROR

    @property
    def revokes(self) -> bool:
        """Whether something is to stop, after which the member is to join again."""
        return bool(self.revoked_connectors or self.revoked_tasks)


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """What a member says of itself when it joins."""

    url: str
    """Where the other workers reach its REST API; ends with a slash."""
    config_offset: int
    """How far it has read the config topic: the last record's offset plus one; -1 before the first."""
    allocation: Assignment | None = None
    """What it runs now. None: nothing yet, or never asked (version 0)."""


def allocation_after(held: Assignment | None, answer: Assignment) -> Assignment:
    """What a member runs, and so says of itself at its next join, once it has done what the leader's answer tells it.

    In versions 1 and 2 the answer adds to what it held and takes from it; in version 0 it stands for itself.
    """
    if held is None or answer.version == Protocol.EAGER.version:
        return answer
    revoked_connectors, revoked_tasks = set(answer.revoked_connectors), set(answer.revoked_tasks)
    connectors = [name for name in held.connectors if name not in revoked_connectors]
    tasks = [task for task in held.tasks if task not in revoked_tasks]
    return replace(
        answer,
        connectors=tuple(dict.fromkeys((*answer.connectors, *connectors))),
        tasks=tuple(dict.fromkeys((*answer.tasks, *tasks))),
        # Done by then; Apache's workers do not repeat it either (recording protocol_sessioned).
        revoked_connectors=(),
        revoked_tasks=(),
    )


def encode_metadata(metadata: WorkerMetadata, protocol: Protocol) -> bytes:
    """The bytes a member joins with."""
    head = _int16(protocol.version) + _string(metadata.url) + _int64(metadata.config_offset)
    if protocol is Protocol.EAGER:
        return head
    # Null, never zero bytes: Java takes any buffer for an assignment and fails to read its header.
    if metadata.allocation is None or metadata.allocation == Assignment(metadata.allocation.version):
        return head + _int32(-1)
    allocation = encode_assignment(replace(metadata.allocation, version=protocol.version))
    return head + _int32(len(allocation)) + allocation


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Reads metadata of any version; one that is newer than these is read as the last. Raises DataError."""
    reader = _Reader(data, "metadata of a worker group's member")
    version = reader.version()
    url, config_offset = reader.string(), reader.int64()
    if version == Protocol.EAGER.version or reader.at_end():
        return WorkerMetadata(url, config_offset)
    allocation = reader.nullable_bytes()
    return WorkerMetadata(url, config_offset, decode_assignment(allocation) if allocation else None)


def encode_assignment(assignment: Assignment) -> bytes:
    """The bytes of an assignment in the form of its version."""
    head = b"".join(
        (
            _int16(assignment.version),
            _int16(assignment.error),
            _string(assignment.leader),
            _string(assignment.leader_url),
            _int64(assignment.config_offset),
            _work(assignment.connectors, assignment.tasks),
        )
    )
    if assignment.version == Protocol.EAGER.version:
        return head
    return head + _work(assignment.revoked_connectors, assignment.revoked_tasks) + _int32(assignment.delay_ms)


def decode_assignment(data: bytes) -> Assignment:
    """Reads an assignment of any version; what is missing at its end is empty, what is more than known is ignored.

    Raises DataError for what is no assignment.
    """
    reader = _Reader(data, "assignment of a worker group")
    version = reader.version()
    error, leader, leader_url, config_offset = reader.int16(), reader.string(), reader.string(), reader.int64()
    if version == Protocol.EAGER.version:
        return Assignment(version, error, leader, leader_url, config_offset, *reader.work())
    connectors, tasks = reader.optional(reader.work, _NO_WORK)
    revoked_connectors, revoked_tasks = reader.optional(reader.work, _NO_WORK)
    delay_ms = reader.optional(reader.int32, 0)
    return Assignment(
        version, error, leader, leader_url, config_offset, connectors, tasks, revoked_connectors, revoked_tasks, delay_ms
    )  # fmt: skip


def _int16(value: int) -> bytes:
    return struct.pack(">h", value)


def _int32(value: int) -> bytes:
    return struct.pack(">i", value)


def _int64(value: int) -> bytes:
    return struct.pack(">q", value)


def _string(text: str) -> bytes:
    data = text.encode()
    if len(data) > 0x7FFF:
        raise DataError(f"{text[:40]}... has {len(data)} bytes; the group protocol carries names of up to 32767")
    return _int16(len(data)) + data


def _work(connectors: Iterable[str], tasks: Iterable[TaskId]) -> bytes:
    """As Java groups it: first the connectors with an instance here, its tasks beside it, then those with tasks alone."""
    numbers: dict[str, list[int]] = {connector: [_CONNECTOR_ITSELF] for connector in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_int32(len(numbers))]
    for connector, members in numbers.items():
        parts += (_string(connector), struct.pack(f">i{len(members)}i", len(members), *members))
    return b"".join(parts)


class _Reader:
    """Takes values off the front of bytes that came from the network."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def optional(self, read: Callable[[], _T], absent: _T) -> _T:
        """What ``read`` takes, or ``absent`` when nothing is left."""
        return absent if self.at_end() else read()

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise self._garbage(f"version {version}")
        # A later version only ever adds fields at the end, as Java's readers assume too.
        return min(version, Protocol.SESSIONED.version)

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise self._garbage(f"a string of length {length}")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as e:
            raise self._garbage("a string that is not UTF-8") from e

    def nullable_bytes(self) -> bytes | None:
        length = self.int32()
        if length < -1:
            raise self._garbage(f"bytes of length {length}")
        return None if length < 0 else self._take(length)

    def work(self) -> _Work:
        """Connectors and tasks of a nullable array of {connector, tasks}."""
        connectors: list[str] = []
        tasks: list[TaskId] = []
        # Six bytes are the least that a connector takes, so a wrong count cannot make this run long.
        for _ in range(self._count(6)):
            connector = self.string()
            count = self._count(4)
            for number in struct.unpack(f">{count}i", self._take(4 * count)):
                if number < _CONNECTOR_ITSELF:
                    raise self._garbage(f"task {number} of connector {connector!r}")
                if number == _CONNECTOR_ITSELF:
                    connectors.append(connector)
                else:
                    tasks.append(TaskId(connector, number))
        return tuple(connectors), tuple(tasks)

    def _count(self, least_size: int) -> int:
        count = self.int32()
        if count < -1 or count * least_size > len(self._data) - self._at:
            raise self._garbage(f"an array of {count} members")
        return max(count, 0)

    def _take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise self._garbage(f"{length} more bytes wanted")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _garbage(self, found: str) -> DataError:
        return DataError(
            f"{self._what} cannot be read: {found} at byte {self._at} of {len(self._data)}; "
            "is another kind of program a member under this group.id?"
        )
