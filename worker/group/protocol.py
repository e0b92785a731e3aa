"""The wire format of the group protocol (KIP-415, KIP-507).

Kafka's group coordinator passes these bytes on without reading them: each member sends its metadata when it joins, and the leader
returns an assignment for each. Big-endian; a string is an int16 length and UTF-8, an array an int32 count; task -1 is the
connector's own instance.

Promise 10: Apache's workers can read these bytes, and this module can read theirs; the tests contain recorded ones.
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
"""The leader has read less of the config topic than some member: read it to its end and join again."""

_CONNECTOR_ITSELF = -1

_Work = tuple[tuple[str, ...], tuple[TaskId, ...]]
_NO_WORK: _Work = ((), ())
_T = TypeVar("_T")


class Protocol(Enum):
    """A version of the group protocol: its number on the wire, and the name it is offered by."""

    EAGER = (0, "default")
    """Everything stops before each join; an assignment is complete."""
    COMPATIBLE = (1, "compatible")
    """Instances keep running while the group rebalances; an assignment says only what to start and what to stop."""
    SESSIONED = (2, "sessioned")
    """As COMPATIBLE, and requests between workers are signed with a session key."""

    @property
    def version(self) -> int:
        return self.value[0]

    @property
    def wire_name(self) -> str:
        return self.value[1]

    def offered(self) -> tuple[Protocol, ...]:
        """Returns what a worker with this ``connect.protocol`` offers, best first. The group uses the best that all offer."""
        best_first = (Protocol.SESSIONED, Protocol.COMPATIBLE, Protocol.EAGER)
        return tuple(protocol for protocol in best_first if protocol.version <= self.version)

    @classmethod
    def of_wire_name(cls, name: str) -> Protocol:
        """Returns the protocol of a name on the wire. Raises DataError for an unknown name."""
        for protocol in cls:
            if protocol.wire_name == name:
                return protocol
        raise DataError(f"the group uses protocol {name!r}; expected one of {', '.join(p.wire_name for p in cls)}")

    @classmethod
    def of_setting(cls, value: str) -> Protocol:
        """Parses ``connect.protocol``: eager, compatible, or sessioned, in any case. Raises DataError for other values."""
        try:
            return cls[value.strip().upper()]
        except KeyError as e:
            raise DataError(f"connect.protocol={value} is none of eager, compatible, sessioned") from e


@dataclass(frozen=True, slots=True)
class Assignment:
    """What the leader assigns to a member, and also what a member reports to run (its allocation).

    In versions 1 and 2, ``connectors`` and ``tasks`` from the leader are only those to start, and the ``revoked`` ones have to
    stop; in version 0, they are the complete assignment.
    """

    version: int
    error: int = NO_ERROR
    leader: str = ""
    """The leader's member ID."""
    leader_url: str = ""
    config_offset: int = -1
    """The offset up to which the config topic must be read to act on this."""
    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskId, ...] = ()
    delay_ms: int = 0
    """The time after which every member has to join again, so that the leader can assign what it left unassigned; 0 for never."""

    @property
    def failed(self) -> bool:
        return self.error != NO_ERROR

    @property
    def revokes(self) -> bool:
        """Whether something has to stop, after which the member has to join again."""
        return bool(self.revoked_connectors or self.revoked_tasks)


@dataclass(frozen=True, slots=True)
class WorkerMetadata:
    """What a member reports when it joins."""

    url: str
    """The URL of its REST API; ends with a slash."""
    config_offset: int
    """The config offset that it has read: the last record's offset plus one; -1 before the first."""
    allocation: Assignment | None = None
    """What it runs now; None for nothing yet, and in version 0."""


def allocation_after(held: Assignment | None, answer: Assignment) -> Assignment:
    """Returns what a member runs, and reports at its next join, once it has carried out an assignment.

    In versions 1 and 2, the assignment adds to the allocation and removes from it; in version 0, it replaces it.
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
        # Apache's workers do not report revocations either (recording protocol_sessioned).
        revoked_connectors=(),
        revoked_tasks=(),
    )


def encode_metadata(metadata: WorkerMetadata, protocol: Protocol) -> bytes:
    """Encodes the metadata that a member joins with."""
    head = _int16(protocol.version) + _string(metadata.url) + _int64(metadata.config_offset)
    if protocol is Protocol.EAGER:
        return head
    # Null, not zero bytes: Java decodes any buffer as an assignment, and fails to read its header.
    if metadata.allocation is None or metadata.allocation == Assignment(metadata.allocation.version):
        return head + _int32(-1)
    allocation = encode_assignment(replace(metadata.allocation, version=protocol.version))
    return head + _int32(len(allocation)) + allocation


def decode_metadata(data: bytes) -> WorkerMetadata:
    """Decodes metadata of any version; newer versions are read as the latest known. Raises DataError."""
    reader = _GroupDataReader(data, "metadata of a worker group's member")
    version = reader.version()
    url, config_offset = reader.string(), reader.int64()
    if version == Protocol.EAGER.version or reader.at_end():
        return WorkerMetadata(url, config_offset)
    allocation = reader.nullable_bytes()
    return WorkerMetadata(url, config_offset, decode_assignment(allocation) if allocation else None)


def encode_assignment(assignment: Assignment) -> bytes:
    """Encodes an assignment in the format of its version."""
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
    """Decodes an assignment of any version; missing trailing fields are empty, and unknown ones are ignored.

    Raises DataError for invalid bytes.
    """
    reader = _GroupDataReader(data, "assignment of a worker group")
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
    """Encodes instances grouped as in Java: first the connectors assigned here, with their tasks, then those with tasks only."""
    numbers: dict[str, list[int]] = {connector: [_CONNECTOR_ITSELF] for connector in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_int32(len(numbers))]
    for connector, members in numbers.items():
        parts += (_string(connector), struct.pack(f">i{len(members)}i", len(members), *members))
    return b"".join(parts)


class _GroupDataReader:
    """Reads values from bytes that came from the network."""

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._at = 0
        self._what = what

    def at_end(self) -> bool:
        return self._at >= len(self._data)

    def optional(self, read: Callable[[], _T], absent: _T) -> _T:
        """Returns the result of ``read``, or ``absent`` at the end."""
        return absent if self.at_end() else read()

    def version(self) -> int:
        version = self.int16()
        if version < 0:
            raise self._garbage(f"version {version}")
        # Later versions only add fields at the end, as Java's readers assume too.
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
        """Reads connectors and tasks from a nullable array of {connector, tasks}."""
        connectors: list[str] = []
        tasks: list[TaskId] = []
        # A connector takes at least six bytes, so a wrong count cannot make this loop long.
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
            raise self._garbage(f"{length} more bytes expected")
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def _garbage(self, found: str) -> DataError:
        return DataError(
            f"{self._what} cannot be read: {found} at byte {self._at} of {len(self._data)}; "
            "is a different type of program a member of this group.id?"
        )
