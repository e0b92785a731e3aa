"""A compacted topic as a log that is read from its start and then followed: Apache's ``KafkaBasedLog``.

Its thread reads, passes each record to a callback, and handles acknowledgments of writes. :meth:`TopicLog.read_to_end` waits
until everything that was written so far has been read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from confluent_kafka import KafkaError, Message

from connect.errors import ConnectError, FencedError, IllegalStateError, UnreachableError
from worker.kafka.clients import BrokerNotices
from worker.kafka.internal_topics import InternalTopic, InternalTopics
from worker.kafka.log_reader import LogReader, PartitionEnd
from worker.kafka.log_writer import LogWriter, TransactionalWriter, Written

log = logging.getLogger(__name__)

_SLICE_S = 0.5
"""How long the log's thread waits for records before it handles acknowledgments and checks whether it must stop."""
_ASK_S = 2.0
_RETRY_S = 0.2


class LogRecord(NamedTuple):
    """One record of the topic. ``live`` means that it was written after the log started."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    live: bool


@dataclass(frozen=True, slots=True)
class TopicLogSettings:
    """A topic and the Java-style settings of its clients. ``leader`` is for the transactional writer and has
    ``transactional.id``."""

    topic: InternalTopic
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)
    leader: Mapping[str, str] | None = field(default=None, repr=False)


class TopicLogWriters:
    """The writers of a topic log, created when they are first needed. Safe from any thread."""

    def __init__(self, settings: TopicLogSettings, is_closed: Callable[[], bool]) -> None:
        """``is_closed`` says whether the log was closed."""
        self._settings = settings
        self._is_closed = is_closed
        self._lock = threading.Lock()
        self._plain: LogWriter | None = None
        self._leader: TransactionalWriter | None = None

    def plain(self) -> LogWriter:
        """Returns the writer without transactions. Raises IllegalStateError if the log is closed."""
        with self._lock:
            self._require_open()
            if self._plain is None:
                self._plain = LogWriter(self._settings.producer, self._settings.topic.name)
            return self._plain

    def claim(self, timeout_s: float) -> None:
        """Claims the exclusive right to write transactions and fences its previous holder. Does nothing if it is claimed already.

        Raises UnreachableError or ConnectError; IllegalStateError if the settings have no transactional writer.
        """
        topic = self._settings.topic.name
        if self._settings.leader is None:
            raise IllegalStateError(f"topic {topic} is not written in transactions")
        with self._lock:
            self._require_open()
            if self._leader is None:
                self._leader = TransactionalWriter(self._settings.leader, topic, timeout_s)

    def relinquish(self) -> None:
        """Gives up the right to write transactions, if this log has it."""
        with self._lock:
            leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    def send_transaction(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes all the records or none. Raises FencedError if the right to write was not claimed or was lost; claim it (again)
        then."""
        with self._lock:
            leader = self._leader
        if leader is None:
            raise FencedError(f"Cannot write to topic {self._settings.topic.name} without claiming the right to write first")
        try:
            return leader.send_all(records, timeout_s)
        except FencedError:
            self.relinquish()
            raise

    def serve(self) -> None:
        """Handles acknowledgments, without waiting."""
        writer = self._plain
        if writer is not None:
            writer.serve()

    def close(self) -> None:
        """Closes the writers; waits some seconds for acknowledgments."""
        self.relinquish()
        with self._lock:
            writer, self._plain = self._plain, None
        if writer is not None:
            writer.close()

    def _require_open(self) -> None:
        if self._is_closed():
            raise IllegalStateError(f"the log of topic {self._settings.topic.name} is closed")


class TopicLog:
    """Owns a thread and up to three clients, from :meth:`start` to :meth:`close`. Other methods are safe from any thread."""

    def __init__(
        self, settings: TopicLogSettings, on_record: Callable[[LogRecord], None], admin: InternalTopics | None = None
    ) -> None:
        """``on_record`` is called on the log's thread for each record, in order within a partition. It must not block; its
        errors are logged. ``admin`` may be shared by several logs."""
        self.topic = settings.topic.name
        self._settings = settings
        self._on_record = on_record
        self._admin = admin
        self._bootstrap = settings.consumer["bootstrap.servers"]
        self._notices = BrokerNotices(self._bootstrap)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log-{self.topic}", daemon=True)
        # Guards the attributes below; notified on any progress.
        self._progress = threading.Condition()
        self._reached: dict[int, int] = {}
        self._started = False
        self._failure: ConnectError | None = None
        self._partitions = 0
        self._committed = settings.consumer.get("isolation.level") == "read_committed"
        self._writers = TopicLogWriters(settings, self._stop.is_set)

    @property
    def partitions(self) -> int:
        """The number of partitions; 0 before the start."""
        return self._partitions

    @property
    def is_read(self) -> bool:
        """Whether everything was read that the topic had when the log started."""
        return self._started

    def start(self, timeout_s: float | None = None) -> None:
        """Creates or checks the topic, and reads all of it: on return every record was passed to ``on_record``.

        Waits until a broker answers; raises UnreachableError after the timeout if there is one. Raises ConfigError if the topic
        is unsuitable, IllegalStateError if the log was closed meanwhile.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._writers.plain()  # it requests its producer ID during the read, so that the first write need not wait for it
        self._partitions = self._ensure_topic(deadline)
        with self._progress:
            if self._stop.is_set() or self._thread.ident is not None:
                raise IllegalStateError(f"the log of topic {self.topic} was started or closed before")
            self._thread.start()
            remaining = None if deadline is None else deadline - time.monotonic()
            done = self._progress.wait_for(lambda: self._started or self._failure or self._stop.is_set(), remaining)
            if self._failure is not None:
                raise self._failure.with_traceback(None)
            if self._stop.is_set():
                raise IllegalStateError(f"the log of topic {self.topic} was closed before it was read")
            if not done:
                raise self._not_read(timeout_s or 0.0, None)

    def read_to_end(self, timeout_s: float, *, with_open: bool = False) -> None:
        """Waits until every record that the topic had at the time of the call was read. Readers may see the records of a
        transaction a little later than its commit was acknowledged, because its markers are written afterwards.

        If only committed records are read, the end is the start of the first open transaction; committed records of other
        producers after it are not included. ``with_open`` waits until open transactions have ended.

        Raises UnreachableError on timeout, ConnectError if reading the topic is not allowed.
        """
        if not self._started:
            raise IllegalStateError(f"the log of topic {self.topic} is not started")
        deadline = time.monotonic() + timeout_s
        ends, why = None, None
        while ends is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0 or self._stop.is_set():
                raise self._not_read(timeout_s, why)
            try:
                ends = self._end_offsets(min(_ASK_S, remaining), committed=self._committed and not with_open)
            except UnreachableError as e:
                why = e
            if ends is None:
                self._stop.wait(min(_RETRY_S, max(0.0, deadline - time.monotonic())))
        self._await(ends, deadline, timeout_s)

    def await_read(self, written: Iterable[Written], timeout_s: float) -> None:
        """Waits until these records were read. Makes no request, so it is the fastest way to read one's own writes. Raises
        like :meth:`read_to_end`."""
        ends: dict[int, int] = {}
        for partition, offset in written:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        self._await(ends, time.monotonic() + timeout_s, timeout_s)

    def send(self, key: bytes, value: bytes | None) -> Future[Written]:
        """Queues a record; see :meth:`LogWriter.send`. The future is resolved on the log's thread."""
        return self._writers.plain().send(key, value)

    def send_all(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes records in order; see :meth:`LogWriter.send_all`."""
        return self._writers.plain().send_all(records, timeout_s)

    def claim(self, timeout_s: float) -> None:
        """Claims the exclusive right to write transactions; see :meth:`TopicLogWriters.claim`."""
        self._writers.claim(timeout_s)

    def relinquish(self) -> None:
        """Gives up the right to write transactions, if this log has it."""
        self._writers.relinquish()

    def send_transaction(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes all the records or none; see :meth:`TopicLogWriters.send_transaction`."""
        return self._writers.send_transaction(records, timeout_s)

    def ask_to_close(self) -> None:
        """Makes a later :meth:`close` fast, so that several logs can end in parallel."""
        self._stop.set()
        with self._progress:
            self._progress.notify_all()

    def close(self) -> None:
        """Stops the thread and closes the clients; waits some seconds for acknowledgments. May be called twice."""
        self.ask_to_close()
        if self._thread.ident is not None:
            self._thread.join()
        self._writers.close()

    def _require_admin(self) -> InternalTopics:
        if self._admin is None:
            self._admin = InternalTopics(self._settings.admin)
        return self._admin

    def _end_offsets(self, timeout_s: float, *, committed: bool) -> dict[int, int]:
        admin = self._require_admin()
        return admin.end_offsets(self.topic, self._partitions, timeout_s, committed=committed)

    def _ensure_topic(self, deadline: float | None) -> int:
        topics = self._require_admin()
        warned = False
        while True:
            try:
                return topics.ensure(self._settings.topic)
            except UnreachableError as e:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                if not warned:
                    log.warning("%s; trying again until it works", e.message)
                    warned = True
            if self._stop.wait(_RETRY_S):
                raise IllegalStateError(f"the log of topic {self.topic} was closed before it was read")

    def _await(self, ends: Mapping[int, int], deadline: float, timeout_s: float) -> None:
        def read() -> bool:
            return all(self._reached.get(partition, 0) >= offset for partition, offset in ends.items())

        with self._progress:
            self._progress.wait_for(
                lambda: read() or self._failure or self._stop.is_set(), max(0.0, deadline - time.monotonic())
            )  # fmt: skip
            if read():
                return
            if self._failure is not None:
                raise self._failure.with_traceback(None)
        raise self._not_read(timeout_s, None)

    def _not_read(self, timeout_s: float, why: ConnectError | None) -> UnreachableError:
        if self._stop.is_set():
            return UnreachableError(f"topic {self.topic} was not read to its end: the log was closed meanwhile")
        check = f"Check that the brokers at {self._bootstrap} run and are not overloaded"
        if self._committed:
            check += (
                ", and that no transaction in it stays open: one that a producer has left ends after its transaction.timeout.ms, "
                "one that a broker has forgotten can be ended with Kafka's kafka-transactions.sh"
            )
        reason = why.message if why else check
        return UnreachableError(f"topic {self.topic} could not be read to its end within {timeout_s:g} s. {reason}")

    # The log's thread

    def _run(self) -> None:
        try:
            ends = self._load()
            if ends is not None:
                self._follow(ends)
        except ConnectError as e:
            self._fail(e)
        except Exception as e:
            log.exception("The log of topic %s has failed with an unexpected error", self.topic)
            self._fail(ConnectError(f"the log of topic {self.topic} has failed: {e}"))

    def _load(self) -> Mapping[int, int] | None:
        """Reads the existing records. Returns the end offsets it read up to, or None if the log must stop."""
        admin = self._require_admin()
        while True:
            try:
                begins = admin.begin_offsets(self.topic, self._partitions, _ASK_S)
                ends = self._end_offsets(_ASK_S, committed=self._committed)
                break
            except UnreachableError as e:
                log.debug("%s", e.message)
                if self._stop.wait(_RETRY_S):
                    return None
        reader = LogReader(self._settings.consumer, self.topic, loading=True, on_error=self._on_error)
        try:
            with self._progress:
                self._reached = dict(begins)
            reader.assign({number: offset for number, offset in begins.items() if offset < ends[number]})
            while any(self._reached[number] < ends[number] for number in ends):
                if self._stop.is_set():
                    return None
                self._take(reader, _SLICE_S, ends)
            return ends
        finally:
            reader.close()

    def _follow(self, ends: Mapping[int, int]) -> None:
        follower = LogReader(self._settings.consumer, self.topic, loading=False, on_error=self._on_error)
        try:
            follower.assign(self._reached)
            with self._progress:
                self._started = True
                self._progress.notify_all()
            while not self._stop.is_set():
                self._take(follower, _SLICE_S, ends)
                self._writers.serve()
        finally:
            follower.close()

    def _take(self, reader: LogReader, timeout_s: float, ends: Mapping[int, int]) -> None:
        reached: dict[int, int] = {}
        for found in reader.read(timeout_s):
            if isinstance(found, PartitionEnd):
                reached[found.partition] = found.offset
            else:
                record = _record(found, ends)
                self._process(record)
                reached[record.partition] = record.offset + 1
        if reached:
            with self._progress:
                self._reached.update(reached)
                self._failure = None
                self._progress.notify_all()

    def _process(self, record: LogRecord) -> None:
        try:
            self._on_record(record)
        except Exception:
            log.exception(
                "Skipping record %d of partition %d of topic %s: processing it failed",
                record.offset, record.partition, self.topic,
            )  # fmt: skip

    def _on_error(self, error: KafkaError) -> None:
        failure = self._notices.failure(error)
        if failure is not None:
            log.error("Topic %s cannot be read: %s", self.topic, failure.message)
            self._fail(failure)

    def _fail(self, failure: ConnectError) -> None:
        with self._progress:
            self._failure = failure
            self._progress.notify_all()


def _record(message: Message, ends: Mapping[int, int]) -> LogRecord:
    partition, offset = message.partition(), message.offset()
    return LogRecord(partition, offset, message.timestamp()[1], message.key(), message.value(), offset >= ends[partition])
