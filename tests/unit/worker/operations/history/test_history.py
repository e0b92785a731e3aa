"""The versions of configurations: numbers, origins, what is kept and what gives way, in memory and as records of a topic."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import BadRequestError, ConfigError, DataError, NotFoundError
from connect.testing import ManualClock
from tests.support.waiting import WAIT_S
from worker.model import ConfigVersion, Origin
from worker.operations.history.memory import MemoryHistory
from worker.operations.history.topic import OnRecord, TopicHistory, VersionKey, decode_key, decode_value, encode_key, encode_value
from worker.operations.history.versions import ConfigDiff, config_to_restore, diff, find

A, B = {"name": "c", "x": "1"}, {"name": "c", "y": "2"}


def memory(size: int = 20) -> MemoryHistory:
    return MemoryHistory(size, ManualClock().time_ms)


def numbers(history: MemoryHistory | TopicHistory, name: str = "c") -> list[int]:
    return [one.version for one in history.versions(name)]


def test_versions_are_numbered_and_have_an_origin() -> None:
    history = memory()
    history.record("c", A, Origin.REST)
    history.record("c", B, Origin.ROLLBACK)
    history.record("c", None, Origin.REST)
    assert [(one.version, one.origin, one.config) for one in history.versions("c")] == [
        (1, Origin.REST, A),
        (2, Origin.ROLLBACK, B),
        (3, Origin.REST, None),
    ]
    assert history.versions("d") == []


def test_unchanged_configuration_is_not_a_new_version() -> None:
    history = memory()
    for _ in range(2):
        history.record("c", A, Origin.REST)
        history.observe("c", dict(A))
    assert numbers(history) == [1]
    history.observe("c", B)
    assert history.versions("c")[-1].origin is Origin.CLUSTER
    history.record("d", None, Origin.REST)
    assert history.versions("d") == []


def test_file_takes_over_a_connector_without_changing_it() -> None:
    history = memory()
    history.record("c", A, Origin.REST)
    assert history.managed() == set()
    history.record("c", A, Origin.DIRECTORY)
    history.record("c", A, Origin.DIRECTORY)
    history.record("c", A, Origin.REST)
    assert numbers(history) == [1, 2]
    assert history.managed() == {"c"}
    history.record("c", B, Origin.REST)
    assert history.managed() == set()
    history.record("c", A, Origin.DIRECTORY)
    history.record("c", None, Origin.DIRECTORY)
    assert history.managed() == set()


def test_oldest_versions_are_dropped_and_numbers_continue() -> None:
    history = memory(2)
    for i in range(5):
        history.record("c", {"x": str(i)}, Origin.REST)
    assert numbers(history) == [4, 5]
    assert find("c", history.versions("c"), 4).config == {"x": "3"}
    with pytest.raises(NotFoundError, match="has no version 3 in its history, which goes from 4 to 5"):
        history.version("c", 3)
    with pytest.raises(NotFoundError, match="No history found for connector d"):
        history.version("d", 1)


def test_differences_are_listed_by_key() -> None:
    assert diff(A, {"name": "d", "y": "2"}) == ConfigDiff(("y",), ("x",), ("name",))
    assert diff(None, A) == ConfigDiff(("name", "x"), (), ())
    assert diff(A, None) == ConfigDiff((), ("name", "x"), ())


def test_deletion_cannot_be_restored() -> None:
    assert config_to_restore("c", ConfigVersion(1, 0, Origin.REST, A)) == A
    with pytest.raises(BadRequestError, match="Version 2 of connector c is its deletion"):
        config_to_restore("c", ConfigVersion(2, 0, Origin.REST, None))


configs = st.none() | st.dictionaries(st.text(), st.none() | st.text())


@given(st.text(), st.builds(ConfigVersion, st.integers(1, 2**31), st.integers(0, 2**53), st.sampled_from(Origin), configs))
def test_records_can_be_read_back(name: str, version: ConfigVersion) -> None:
    assert decode_key(encode_key(name, version.version)) == VersionKey(name, version.version)
    assert decode_value(version.version, encode_value(version)) == version


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b'["c"]', b'["c",0]', b'["c","1"]', None])
def test_keys_of_another_format_are_rejected(data: bytes | None) -> None:
    with pytest.raises(DataError):
        decode_key(data)


@pytest.mark.parametrize("data", [b"", b"1", b"{}", b'{"at":1,"origin":"rest","config":{"a":1}}'])
def test_values_of_another_format_are_rejected(data: bytes) -> None:
    with pytest.raises(DataError):
        decode_value(1, data)


def test_unknown_origin_becomes_cluster() -> None:
    assert decode_value(1, b'{"at":1,"origin":"moon","config":null}').origin is Origin.CLUSTER


class FakeTopic:
    """A topic that several logs write and read."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.failure: Exception | None = None
        self.written = threading.Condition()

    def log(self, on_record: OnRecord) -> FakeLog:
        return FakeLog(self, on_record)

    def wait_for(self, is_there: Callable[[], bool]) -> None:
        with self.written:
            assert self.written.wait_for(is_there, WAIT_S)


class FakeLog:
    def __init__(self, topic: FakeTopic, on_record: OnRecord) -> None:
        self._topic = topic
        self._on_record = on_record
        self._read = 0
        self._lock = threading.Lock()

    def start(self, timeout_s: float | None = None) -> None:
        if self._topic.failure is not None:
            raise self._topic.failure
        self.read_to_end(1)

    def read_to_end(self, timeout_s: float) -> None:
        with self._lock:
            for record in self._topic.records[self._read :]:
                self._on_record(*record)
                self._read += 1

    def send(self, key: bytes, value: bytes | None) -> Future[Any]:
        with self._topic.written:
            self._topic.records.append((key, value))
            self._topic.written.notify_all()
        done: Future[Any] = Future()
        done.set_result(None)
        return done

    def ask_to_close(self) -> None:
        """Nothing waits."""

    def close(self) -> None:
        """Nothing runs."""


def test_new_leader_continues_the_version_numbers() -> None:
    topic = FakeTopic()
    one, other = (TopicHistory("h", 2, topic.log) for _ in range(2))
    for history in (one, other):
        history.start()
    one.record("c", A, Origin.REST)
    topic.wait_for(lambda: len(topic.records) == 1)
    other.observe("c", A)
    other.record("c", B, Origin.DIRECTORY)
    topic.wait_for(lambda: len(topic.records) == 2)
    assert numbers(one) == numbers(other) == [1, 2]
    assert one.version("c", 2).config == B
    other.record("c", A, Origin.REST)
    topic.wait_for(lambda: len(topic.records) == 4)
    assert topic.records[-1] == (b'["c",1]', None)
    assert numbers(one) == [2, 3]
    for history in (one, other):
        history.close()
    assert "config-history" not in [thread.name for thread in threading.enumerate()]


def test_managed_connectors_are_known_after_the_topic_was_read() -> None:
    topic = FakeTopic()
    version = ConfigVersion(1, 5, Origin.DIRECTORY, A)
    topic.records = [(encode_key("c", 1), encode_value(version)), (b"junk", b"junk")]
    history = TopicHistory("h", 2, topic.log)
    assert history.managed() == set()
    history.start()
    assert history.versions("c") == [version]
    assert history.managed() == {"c"}
    history.close()


def test_history_stays_in_memory_without_a_topic(caplog: pytest.LogCaptureFixture) -> None:
    topic = FakeTopic()
    topic.failure = ConfigError("not allowed to make topics")
    history = TopicHistory("h", 2, topic.log)
    recorded = threading.Event()
    history.start()
    history.record("c", A, Origin.REST)
    history.record("c", B, Origin.REST)
    history._jobs.put(recorded.set)
    assert recorded.wait(WAIT_S)
    assert numbers(history) == [1, 2]
    history.close()
    assert topic.records == []
    warnings = [r.getMessage() for r in caplog.records]
    assert len(warnings) == 1
    assert "stays in memory, because topic h is unusable: not allowed to make topics" in warnings[0]
