"""The recent log lines of each connector, for ``sluice logs`` and REST.

Like loggers, they belong to the process. An idle worker pays nothing: memory is taken when lines come, and readers that wait are
called back.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from worker.config.secrets import SecretMask
from worker.observability.log_lines import LogLine, line_of

MAX_BYTES: Final = 4 * 1024 * 1024
"""Of all lines of a worker together."""
_EVICT_BYTES = 64 * 1024


@dataclass(slots=True)
class _Lines:
    """The lines of one connector, oldest first."""

    lines: deque[tuple[int, LogLine]] = field(default_factory=deque)
    size_bytes: int = 0
    last_evicted: int = 0


@dataclass(frozen=True, slots=True)
class RecentLines:
    """Lines with their numbers, oldest first."""

    lines: Sequence[tuple[int, LogLine]]
    next_seq: int
    """Continue after this number."""
    has_gap: bool
    """Whether lines after the asked number are gone."""


class RecentLogs:
    """Safe from any thread. If lines exceed the limit, the connector with the most loses its oldest: a chatty connector cannot
    displace the lines of others."""

    def __init__(self, max_bytes: int = MAX_BYTES, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.started_ms = now_ms()
        """Numbers count from here; they start again in another process."""
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._last = 0
        self._size_bytes = 0
        self._connectors: dict[str, _Lines] = {}
        self._watchers: dict[str, list[Callable[[], None]]] = {}

    def add(self, lines: Sequence[LogLine]) -> None:
        """Adds lines and calls back those who wait for them. Does not block."""
        if not lines:
            return
        with self._lock:
            for line in lines:
                own = self._connectors.setdefault(line.connector, _Lines())
                self._last = next(self._numbers)
                own.lines.append((self._last, line))
                own.size_bytes += line.size_bytes
                self._size_bytes += line.size_bytes
            if self._size_bytes > self._max_bytes:
                self._evict()
            callbacks = [call for name in {line.connector for line in lines} for call in self._watchers.get(name, ())]
        for callback in callbacks:
            callback()

    def _evict(self) -> None:
        while self._size_bytes > self._max_bytes:
            name = max(self._connectors, key=lambda one: self._connectors[one].size_bytes)
            own = self._connectors[name]
            goal = own.size_bytes - _EVICT_BYTES
            while own.lines and own.size_bytes > goal:
                own.last_evicted, line = own.lines.popleft()
                own.size_bytes -= line.size_bytes
                self._size_bytes -= line.size_bytes

    def read(self, connector: str, after: int, limit: int, is_wanted: Callable[[LogLine], bool] = lambda _: True) -> RecentLines:
        """Returns the lines with higher numbers than ``after`` that are wanted, at most ``limit``: the newest ones if ``after``
        is 0, else the next ones; -1 means all."""
        with self._lock:
            own = self._connectors.get(connector) or _Lines()
            found = list(itertools.takewhile(lambda one: one[0] > after, reversed(own.lines)))
            last, evicted = self._last, own.last_evicted
        found.reverse()
        wanted = [one for one in found if is_wanted(one[1])]
        if after == 0:
            return RecentLines(wanted[-limit:] if limit else [], last, False)
        shown = wanted[:limit]
        next_seq = shown[-1][0] if shown and len(wanted) > limit else max(last, after)
        return RecentLines(shown, next_seq, 0 < after < evicted)

    def knows(self, connector: str) -> bool:
        """Whether there are lines of this connector, which may have been deleted."""
        with self._lock:
            return connector in self._connectors

    @property
    def size_bytes(self) -> int:
        """About how much memory the lines take."""
        return self._size_bytes

    @contextmanager
    def watch(self, connector: str, callback: Callable[[], None]) -> Iterator[None]:
        """Calls back on any thread, inside the block, when there are new lines of a connector. The callback must not block."""
        with self._lock:
            self._watchers.setdefault(connector, []).append(callback)
        try:
            yield
        finally:
            with self._lock:
                self._watchers[connector].remove(callback)
                if not self._watchers[connector]:
                    del self._watchers[connector]


class _RecentLogHandler(logging.Handler):
    """Keeps log records that are about a connector."""

    def __init__(self, keep: Callable[[LogLine], None], mask: SecretMask) -> None:
        super().__init__()
        self._keep = keep
        self._mask = mask

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = line_of(record, self._mask)
        except Exception:
            return  # the main handler reports a malformed record
        if line is not None:
            self._keep(line)


_recent = RecentLogs()


def recent_logs() -> RecentLogs:
    """Returns the lines of this process and of its executors."""
    return _recent


def keep_recent_logs(mask: SecretMask) -> logging.Handler:
    """Keeps the lines of this process from now on. Returns the handler."""
    return _add_handler(lambda line: _recent.add((line,)), mask)


SendLines = Callable[[list[list[Any]], Callable[[], None]], None]
"""``send(lines, acknowledged)`` sends plain lines and does not block; it calls ``acknowledged`` once, on any thread."""


def forward_logs(send: SendLines, mask: SecretMask) -> logging.Handler:
    """Forwards the lines of an executor process to its worker; see :class:`LogForwarder`. Returns the handler."""
    return _add_handler(LogForwarder(send).add, mask)


def _add_handler(keep: Callable[[LogLine], None], mask: SecretMask) -> logging.Handler:
    handler = _RecentLogHandler(keep, mask)
    logging.getLogger().addHandler(handler)
    return handler


class LogForwarder:
    """Sends lines in batches, one after another: the next when the last was acknowledged.

    A process that logs faster than its worker reads therefore loses lines here, the oldest first, and cannot fill the channel
    that states and offsets use. Needs no thread. Safe from any thread.
    """

    def __init__(self, send: SendLines, max_bytes: int = 256 * 1024) -> None:
        self._send = send
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._waiting: deque[LogLine] = deque()
        self._size_bytes = 0
        self._omitted: Counter[str] = Counter()
        self._is_sending = False

    def add(self, line: LogLine) -> None:
        with self._lock:
            self._waiting.append(line)
            self._size_bytes += line.size_bytes
            while self._size_bytes > self._max_bytes and len(self._waiting) > 1:
                omitted = self._waiting.popleft()
                self._size_bytes -= omitted.size_bytes
                self._omitted[omitted.connector] += 1
            if self._is_sending:
                return
            self._is_sending = True
        self._send_waiting()

    def _send_waiting(self) -> None:
        with self._lock:
            if not self._waiting:
                self._is_sending = False
                return
            lines = [*(_omission(name, count, self._waiting[0]) for name, count in self._omitted.items()), *self._waiting]
            self._waiting.clear()
            self._omitted.clear()
            self._size_bytes = 0
        self._send([line.to_plain() for line in lines], self._send_waiting)


def _omission(connector: str, count: int, before: LogLine) -> LogLine:
    text = f"{count} lines are omitted here, but not in the log of the worker: they came faster than the worker reads them"
    return LogLine(connector, None, before.at_ms, "WARN", __name__, text, None)
