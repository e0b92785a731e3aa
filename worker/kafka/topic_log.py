"""A compacted topic as a log that is read from its beginning and then followed: Apache's ``KafkaBasedLog``.

One thread of its own reads, hands each record to a callback, and takes in acknowledgements of what was written. Whoever has to
know that all is read that was there waits in :meth:`TopicLog.read_to_end`.
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
"""How long the log's thread waits for records before it looks after acknowledgements, and whether it is to end."""
_ASK_S = 2.0
_RETRY_S = 0.2


class LogRecord(NamedTuple):
    """One record of the topic. ``live`` says that it was written after the log was started."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    live: bool


@dataclass(frozen=True, slots=True)
class TopicLogSettings:
    """A topic, and the Java-style settings of its clients. ``leader`` is for the writer of transactions; it has
    ``transactional.id``."""

    topic: InternalTopic
    consumer: Mapping[str, str] = field(repr=False)
    producer: Mapping[str, str] = field(repr=False)
    admin: Mapping[str, str] = field(repr=False)
    leader: Mapping[str, str] | None = field(default=None, repr=False)


class TopicLog:
    """Owns a thread and up to three clients, from :meth:`start` to :meth:`close`. Other methods are safe from any thread."""

    def __init__(
        self, settings: TopicLogSettings, on_record: Callable[[LogRecord], None], admin: InternalTopics | None = None
    ) -> None:
        """``on_record`` is called on the log's thread for each record, in order within a partition. It must not block; what it
        raises is logged. ``admin`` may be shared by several logs."""
        self.topic = settings.topic.name
        self._settings = settings
        self._on_record = on_record
        self._admin = admin
        self._bootstrap = settings.consumer["bootstrap.servers"]
        self._notices = BrokerNotices(self._bootstrap)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"log-{self.topic}", daemon=True)
        # Guards what follows, and tells of every step forward.
        self._progress = threading.Condition()
        self._reached: dict[int, int] = {}
        self._started = False
        self._failure: ConnectError | None = None
        self._partitions = 0
        self._committed = settings.consumer.get("isolation.level") == "read_committed"
        self._writers = threading.Lock()
        self._writer: LogWriter | None = None
        self._leader: TransactionalWriter | None = None

    @property
    def partitions(self) -> int:
        """How many the topic has; 0 before the start."""
        return self._partitions

    def start(self, timeout_s: float | None = None) -> None:
        """Makes or checks the topic, and reads all that is in it: every record was handed on when this returns.

        Waits for a broker as long as none answers; raises UnreachableError after the time if one is given. Raises ConfigError for
        a topic that does not fit, IllegalStateError when the log was closed meanwhile.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        self._plain_writer()  # it asks for its number while the topic is read, so that the first write need not wait for that
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
        """Returns when every record was handed on that the topic had at the time of the call. Of a transaction that was just
        committed readers may hear a little later: its markers are written after the commit was answered.

        Where only committed records are handed on, the end is where the first open transaction begins; what other producers have
        committed behind that is not read. ``with_open`` waits until the transactions that are open have ended.

        Raises UnreachableError when that takes longer, ConnectError when the topic may not be read.
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
        """Returns when these records were handed on. Asks no broker, so that it is the quickest way to read one's own writes.
        Raises as :meth:`read_to_end`."""
        ends: dict[int, int] = {}
        for partition, offset in written:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        self._await(ends, time.monotonic() + timeout_s, timeout_s)

    def send(self, key: bytes, value: bytes | None) -> Future[Written]:
        """Queues a record; see :meth:`LogWriter.send`. The future is resolved on the log's thread."""
        return self._plain_writer().send(key, value)

    def send_all(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes records in order; see :meth:`LogWriter.send_all`."""
        return self._plain_writer().send_all(records, timeout_s)

    def claim(self, timeout_s: float) -> None:
        """Takes over the right to write transactions; who had it before is fenced. Nothing happens for who has it.

        Raises UnreachableError or ConnectError; IllegalStateError when the settings have no writer of transactions.
        """
        if self._settings.leader is None:
            raise IllegalStateError(f"topic {self.topic} is not written in transactions")
        with self._writers:
            self._require_open()
            if self._leader is None:
                self._leader = TransactionalWriter(self._settings.leader, self.topic, timeout_s)

    def relinquish(self) -> None:
        """Gives the right up, if this log has it."""
        with self._writers:
            leader, self._leader = self._leader, None
        if leader is not None:
            leader.close()

    def send_transaction(self, records: Iterable[tuple[bytes, bytes | None]], timeout_s: float) -> list[Written]:
        """Writes all the records or none. Raises FencedError when the right to was not claimed, or is lost; it has to be claimed
        (again) then."""
        with self._writers:
            leader = self._leader
        if leader is None:
            raise FencedError(f"Cannot write to topic {self.topic} without claiming the right to write first")
        try:
            return leader.send_all(records, timeout_s)
        except FencedError:
            self.relinquish()
            raise

    def ask_to_close(self) -> None:
        """Makes a later :meth:`close` quick: several logs end side by side."""
        self._stop.set()
        with self._progress:
            self._progress.notify_all()

    def close(self) -> None:
        """Ends the thread and the clients; waits some seconds for what is not acknowledged yet. May be called twice."""
        self.ask_to_close()
        if self._thread.ident is not None:
            self._thread.join()
        self.relinquish()
        with self._writers:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _plain_writer(self) -> LogWriter:
        with self._writers:
            self._require_open()
            if self._writer is None:
                self._writer = LogWriter(self._settings.producer, self.topic)
            return self._writer

    def _require_open(self) -> None:
        if self._stop.is_set():
            raise IllegalStateError(f"the log of topic {self.topic} is closed")

    def _require_admin(self) -> InternalTopics:
        if self._admin is None:
            self._admin = InternalTopics(self._settings.admin)
        return self._admin

    def _end_offsets(self, timeout_s: float, *, committed: bool) -> dict[int, int]:
        admin = self._require_admin()
        return admin.end_offsets(self.topic, self._partitions, timeout_s, committed=committed)

    def _ensure_topic(self, deadline: float | None) -> int:
        topics = self._require_admin()
        told = False
        while True:
            try:
                return topics.ensure(self._settings.topic)
            except UnreachableError as e:
                if deadline is not None and time.monotonic() >= deadline:
                    raise
                if not told:
                    log.warning("%s; trying again until it works", e.message)
                    told = True
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
            log.exception("The log of topic %s has ended by an error that was not expected", self.topic)
            self._fail(ConnectError(f"the log of topic {self.topic} has ended: {e}"))

    def _load(self) -> Mapping[int, int] | None:
        """Reads what is there; the ends it had then, or None when the log is to end."""
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
                writer = self._writer
                if writer is not None:
                    writer.serve()
        finally:
            follower.close()

    def _take(self, reader: LogReader, timeout_s: float, ends: Mapping[int, int]) -> None:
        moved: dict[int, int] = {}
        for found in reader.read(timeout_s):
            if isinstance(found, PartitionEnd):
                moved[found.partition] = found.offset
            else:
                record = _record(found, ends)
                self._hand_on(record)
                moved[record.partition] = record.offset + 1
        if moved:
            with self._progress:
                self._reached.update(moved)
                self._failure = None
                self._progress.notify_all()

    def _hand_on(self, record: LogRecord) -> None:
        try:
            self._on_record(record)
        except Exception:
            log.exception(
                "Record %d of partition %d of topic %s is left out: taking it in failed",
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
