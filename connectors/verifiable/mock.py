"""MockSource and MockSink: do nothing, and fail on request."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from connect.config.definition import ConfigDef
from connect.config.parsing import parse_value
from connect.config.types import ConfigType
from connect.connector import Connector, ConnectorContext, SinkConnector, SourceConnector
from connect.record import SinkRecord, SourceRecord, TopicPartition
from connect.sink import SinkTask
from connect.source import SourceTask

MODE = "mock_mode"
DELAY_MS = "delay_ms"
CONNECTOR_FAILURE = "connector-failure"
TASK_FAILURE = "task-failure"
DEFAULT_DELAY_MS = 15_000
MAX_WAIT_S = 1.0
_JOIN_S = 20.0
_log = logging.getLogger(__name__)


def find_failure_delay_s(config: Mapping[str, str], mode: str) -> float | None:
    """Delay until a failure in this mode; None for never. Raises ConfigError for an invalid delay."""
    if config.get(MODE) != mode:
        return None
    delay_ms = parse_value(DELAY_MS, config.get(DELAY_MS), ConfigType.LONG)
    return (DEFAULT_DELAY_MS if delay_ms is None else int(delay_ms)) / 1000


class ConnectorFailure:
    """Fails a connector with ``mock_mode=connector-failure`` after a delay."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Starts to wait on a separate thread; :meth:`stop` ends it."""
        self.stop()
        after_s = find_failure_delay_s(config, CONNECTOR_FAILURE)
        if after_s is not None:
            _log.debug("The connector will fail in %g s", after_s)
            error = RuntimeError(f"{MODE}={CONNECTOR_FAILURE}")
            self._timer = threading.Timer(after_s, context.raise_error, (error,))
            self._timer.name = f"mock-failure-{config.get('name')}"
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Cancels the failure. Raises RuntimeError if the worker has been handling it for 20 seconds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join(_JOIN_S)
            if self._timer.is_alive():
                raise RuntimeError(f"{self._timer.name} has not ended within {_JOIN_S:g} s")
            self._timer = None


class TaskFailure:
    """Fails a task with ``mock_mode=task-failure`` after a delay."""

    def __init__(self, config: Mapping[str, str], monotonic: Callable[[], float] = time.monotonic) -> None:
        after_s = find_failure_delay_s(config, TASK_FAILURE)
        self._monotonic = monotonic
        self._due_s = None if after_s is None else monotonic() + after_s

    def remaining_s(self) -> float | None:
        """Time until the failure; None for never."""
        return None if self._due_s is None else max(0.0, self._due_s - self._monotonic())

    def raise_if_due(self) -> None:
        """Raises RuntimeError after the delay."""
        if self.remaining_s() == 0.0:
            raise RuntimeError(f"{MODE}={TASK_FAILURE}")


class MockConnector(Connector):
    """A connector with one task that does nothing."""

    most_tasks = 1
    open_prefixes = (MODE, DELAY_MS)

    def __init__(self) -> None:
        self._config: dict[str, str] = {}
        self._failure = ConnectorFailure()

    def config_def(self) -> ConfigDef:
        return ConfigDef()

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._failure.start(config, self.context)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]

    def stop(self) -> None:
        self._failure.stop()


class MockSource(MockConnector, SourceConnector):
    """Produces no records. ``org.apache.kafka.connect.tools.MockSourceConnector``."""

    def task_class(self) -> type[SourceTask]:
        return MockSourceTask


class MockSourceTask(SourceTask):
    """Produces nothing; fails in ``poll`` if configured."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def start(self, config: Mapping[str, str]) -> None:
        self._failure = TaskFailure(config)

    def poll(self) -> Sequence[SourceRecord] | None:
        remaining_s = self._failure.remaining_s()
        self._stopped.wait(MAX_WAIT_S if remaining_s is None else min(remaining_s, MAX_WAIT_S))
        self._failure.raise_if_due()
        return None

    def stop(self) -> None:
        self._stopped.set()


class MockSink(MockConnector, SinkConnector):
    """Discards all records. ``org.apache.kafka.connect.tools.MockSinkConnector``."""

    def task_class(self) -> type[SinkTask]:
        return MockSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return False  # as in Apache Kafka: the worker changes the group's offsets


class MockSinkTask(SinkTask):
    """Discards all records; fails in ``put`` if configured, with or without records."""

    def start(self, config: Mapping[str, str]) -> None:
        self._failure = TaskFailure(config)
        self._request_put()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._failure.raise_if_due()
        self._request_put()

    def _request_put(self) -> None:
        remaining_s = self._failure.remaining_s()
        if remaining_s is not None:
            self.context.timeout(int(remaining_s * 1000) + 1)
