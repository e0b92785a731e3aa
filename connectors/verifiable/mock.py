"""MockSource and MockSink: they do nothing, and fail when they are told to."""

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
LONGEST_WAIT_S = 1.0
_JOIN_S = 20.0
_log = logging.getLogger(__name__)


def delay_s(config: Mapping[str, str], mode: str) -> float | None:
    """After what time to fail in this mode; None: never. Raises ConfigError for a delay that is no number."""
    if config.get(MODE) != mode:
        return None
    delay_ms = parse_value(DELAY_MS, config.get(DELAY_MS), ConfigType.LONG)
    return (DEFAULT_DELAY_MS if delay_ms is None else int(delay_ms)) / 1000


class ConnectorFailure:
    """Fails a connector with ``mock_mode=connector-failure`` once its time has come."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, config: Mapping[str, str], context: ConnectorContext) -> None:
        """Begins to wait, on a thread of its own; :meth:`stop` ends it."""
        self.stop()
        after_s = delay_s(config, CONNECTOR_FAILURE)
        if after_s is not None:
            _log.debug("The connector is to fail in %g s", after_s)
            error = RuntimeError(f"{MODE}={CONNECTOR_FAILURE}")
            self._timer = threading.Timer(after_s, context.raise_error, (error,))
            self._timer.name = f"mock-failure-{config.get('name')}"
            self._timer.daemon = True
            self._timer.start()

    def stop(self) -> None:
        """Fails nothing any more. Raises RuntimeError when the worker has been busy taking the failure for 20 seconds."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join(_JOIN_S)
            if self._timer.is_alive():
                raise RuntimeError(f"{self._timer.name} has not ended within {_JOIN_S:g} s")
            self._timer = None


class TaskFailure:
    """When a task with ``mock_mode=task-failure`` is to fail."""

    def __init__(self, config: Mapping[str, str], monotonic: Callable[[], float] = time.monotonic) -> None:
        after_s = delay_s(config, TASK_FAILURE)
        self._monotonic = monotonic
        self._due_s = None if after_s is None else monotonic() + after_s

    def left_s(self) -> float | None:
        """How much time is left; None: it never fails."""
        return None if self._due_s is None else max(0.0, self._due_s - self._monotonic())

    def raise_if_due(self) -> None:
        """Raises RuntimeError when its time has come."""
        if self.left_s() == 0.0:
            raise RuntimeError(f"{MODE}={TASK_FAILURE}")


class Mock(Connector):
    """One task, which does nothing."""

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


class MockSource(Mock, SourceConnector):
    """Gives no records. ``org.apache.kafka.connect.tools.MockSourceConnector``."""

    def task_class(self) -> type[SourceTask]:
        return MockSourceTask


class MockSourceTask(SourceTask):
    """Gives nothing, and fails in ``poll`` if it is to."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def start(self, config: Mapping[str, str]) -> None:
        self._failure = TaskFailure(config)

    def poll(self) -> Sequence[SourceRecord] | None:
        left_s = self._failure.left_s()
        self._stopped.wait(LONGEST_WAIT_S if left_s is None else min(left_s, LONGEST_WAIT_S))
        self._failure.raise_if_due()
        return None

    def stop(self) -> None:
        self._stopped.set()


class MockSink(Mock, SinkConnector):
    """Keeps nothing. ``org.apache.kafka.connect.tools.MockSinkConnector``."""

    def task_class(self) -> type[SinkTask]:
        return MockSinkTask

    def alter_offsets(self, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        return False  # as in Apache's: the worker changes the group's offsets


class MockSinkTask(SinkTask):
    """Takes everything and does nothing with it, and fails in ``put`` if it is to, with records or without."""

    def start(self, config: Mapping[str, str]) -> None:
        self._failure = TaskFailure(config)
        self._ask_for_put()

    def put(self, records: Sequence[SinkRecord]) -> None:
        self._failure.raise_if_due()
        self._ask_for_put()

    def _ask_for_put(self) -> None:
        left_s = self._failure.left_s()
        if left_s is not None:
            self.context.timeout(int(left_s * 1000) + 1)
