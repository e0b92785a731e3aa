"""The producer of a dead letter queue, which knows how many records the broker has not acknowledged yet."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect.errors import ConnectError
from worker.kafka.clients import BrokerNotices, kafka_error, make_producer
from worker.kafka.record_producer import HeaderBytes
from worker.model import TaskStopped

log = logging.getLogger(__name__)

_SLICE_S = 0.1
_MEMORY = "the client's memory; raise producer.override.buffer.memory"


class DeadLetterProducer:
    """Safe from any thread. Its own thread handles acknowledgments, so that a task may wait for its reports anywhere; the
    thread starts with the first record and ends in :meth:`close`."""

    def __init__(self, java: Mapping[str, str], topic: str, name: str, *, on_failure: Callable[[], None]) -> None:
        """``name`` is the task's, for the thread; ``on_failure`` is called for each record that was not written."""
        self.topic = topic
        self.max_record_bytes = int(java["max.request.size"])
        """The client's limit for the size of a record."""
        self._bootstrap = java["bootstrap.servers"]
        self._what = f"Could not produce message to dead letter queue. topic={topic}"
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._open = 0
        self._failure: ConnectError | None = None
        self._closed = False
        self._notices = BrokerNotices(self._bootstrap)
        self._producer: Producer = make_producer(java, error_cb=self._on_client_error)
        self._thread = threading.Thread(target=self._listen, name=f"dead-letters-{name}", daemon=True)

    def send(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: HeaderBytes,
        timestamp: int | None,
        stopping: Callable[[], bool],
    ) -> Future[None]:
        """Sends one record; the future completes when the broker has acknowledged it. ``timestamp`` None means now.

        Waits while the client's queue is full. Raises TaskStopped if ``stopping`` returns True meanwhile.
        """
        future: Future[None] = Future()
        with self._changed:
            if self._closed:
                raise TaskStopped
            self._open += 1
            if self._thread.ident is None:
                self._thread.start()

        def delivered(error: KafkaError | None, message: Message) -> None:
            self._ended(future, None if error is None else self._error(error))

        while True:
            empty = not len(self._producer)
            try:
                self._producer.produce(self.topic, value, key, -1, delivered, None, timestamp or 0, headers or None)
            except BufferError:
                if empty:
                    size = len(key or b"") + len(value or b"")
                    self._ended(future, ConnectError(f"{self._what}: {size} bytes do not fit into {_MEMORY}"))
                    return future
                with self._changed:
                    if stopping() or self._closed:
                        self._open -= 1
                        raise TaskStopped from None
                    self._changed.wait(_SLICE_S)
            except KafkaException as e:
                self._ended(future, self._error(e.args[0]))
                return future
            else:
                return future

    def flush(self, timeout_s: float) -> bool:
        """Waits until every sent record is acknowledged. Returns False on timeout.

        Raises ConnectError, on every call, once a record could not be written.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            self._changed.wait_for(lambda: not self._open or self._closed, max(0.0, deadline - time.monotonic()))
            self.check()
            return not self._open

    def check(self) -> None:
        """Raises the error of a record that could not be written, on every call."""
        failure = self._failure
        if failure is not None:
            raise type(failure)(*failure.args)  # a new object each time: several threads may raise it

    @property
    def unacknowledged(self) -> int:
        """The number of unacknowledged records."""
        return self._open

    def cancel(self) -> None:
        """Discards queued records and sends nothing more. Does not wait."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._producer.purge(in_queue=True, in_flight=True, blocking=False)

    def close(self) -> None:
        """Closes the client and ends its thread without waiting for acknowledgments; see :meth:`flush`."""
        self.cancel()
        if self._thread.ident is not None:
            self._thread.join()
        self._producer.flush(1.0)  # reports the purged records, so that their futures complete
        self._producer.close()

    def _listen(self) -> None:
        while not self._closed:
            self._producer.poll(_SLICE_S)

    def _ended(self, future: Future[None], error: ConnectError | None) -> None:
        if error is not None and not self._closed:
            log.error("%s", error.message)
            self._on_failure()
        with self._changed:
            self._open -= 1
            if error is not None and self._failure is None and not self._closed:
                self._failure = error
            self._changed.notify_all()
        if error is None:
            future.set_result(None)
        else:
            future.set_exception(error)

    def _error(self, error: KafkaError) -> ConnectError:
        if error.code() == KafkaError.MSG_SIZE_TOO_LARGE:
            return ConnectError(
                f"{self._what}: it is larger than the topic or the client allows; raise max.message.bytes of the topic and "
                "producer.override.max.request.size (the context headers add some kilobytes)"
            )
        return kafka_error(error, self._what, self._bootstrap)

    def _on_client_error(self, error: KafkaError) -> None:
        failure = self._notices.failure(error)
        if failure is not None:
            with self._changed:
                self._failure = self._failure or failure
                self._changed.notify_all()
