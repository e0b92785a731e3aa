"""FileStreamSource: reads lines of a file, or of the standard input, as records."""

from __future__ import annotations

import logging
import os
import select
import stat
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from connect.config.definition import ConfigDef
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.data.schema import Schema
from connect.errors import ConfigError, ConnectError
from connect.paths import path_rules
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.file.config import FILE, SOURCE_CONFIG, FileSourceConfig
from connectors.file.lines import LineSplitter
from connectors.file.watch import SHARED_WATCH, FileState, FileWatch

FILENAME = "filename"
POSITION = "position"
BLOCK_BYTES = 1 << 20
IDLE_TIMEOUT_S = 1.0
"""How long a poll waits for a line, as in Apache Kafka."""
QUIET_AFTER_S = 10.0
QUIET_IDLE_TIMEOUT_S = 2.0
"""Wait after QUIET_AFTER_S without lines: the cost of many quiet files is waking up. A pause takes effect between polls."""
MIN_POLL_INTERVAL_S = 0.001
MAX_POLL_INTERVAL_S = 0.2
"""A file without new lines is polled at an interval that doubles up to this value; then it is watched (see
:mod:`connectors.file.watch`). So active files are read immediately, and quiet files cost almost nothing."""
_log = logging.getLogger(__name__)


class FileStreamSource(SourceConnector):
    """Reads one file with one task. ``org.apache.kafka.connect.file.FileStreamSourceConnector``."""

    most_tasks = 1

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return SOURCE_CONFIG

    def start(self, config: Mapping[str, str]) -> None:
        settings = FileSourceConfig.parse(config)
        _log.info("Starting file source connector reading from %s", settings.file or "standard input")
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return FileStreamSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config)]  # a file has one reader

    def stop(self) -> None:
        """Does nothing: only the task runs."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        has_file = bool(FileSourceConfig.parse(config).file)
        return ExactlyOnceSupport.SUPPORTED if has_file else ExactlyOnceSupport.UNSUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        """Checks only the form; the task checks the position when it starts. The messages are Apache's."""
        if not FileSourceConfig.parse(config).file:
            raise ConnectError(
                f"Offsets cannot be modified if the '{FILE}' configuration is unspecified. "
                "This is because stdin is used for input and offsets are not tracked."
            )
        for partition, offset in offsets.items():
            if offset is None:
                continue  # any stored offset may be removed
            if POSITION not in offset:
                raise ConnectError(f"Offset objects should either be null or contain the key '{POSITION}'")
            position = offset[POSITION]
            if type(position) is not int:
                raise ConnectError(f"The value for the '{POSITION}' key in the offset is expected to be a Long value")
            if position < 0:
                raise ConnectError(f"The value for the '{POSITION}' key in the offset should be a non-negative value")
            if partition is None:
                raise ConnectError("Partition objects cannot be null")
            if FILENAME not in dict(partition):
                raise ConnectError(f"Partition objects should contain the key '{FILENAME}'")
        return True


class FileStreamSourceTask(SourceTask):
    """Reads whole blocks and returns up to ``batch.size`` lines per poll.

    The offset of a record is the byte position after its line, so that a restart continues with the next line. The task waits
    for a missing file; it reads a truncated file from its start, and a replaced file to its end and then the new file from its
    start. The standard input has no offsets.
    """

    def __init__(self) -> None:
        self._stopping = False
        self._wake = threading.Event()
        self._watch: FileWatch | None = None
        self._poll_interval_s = MIN_POLL_INTERVAL_S
        self._last_line_s = time.monotonic()
        self._fd = -1
        self._owns_fd = False
        self._splitter = LineSplitter()
        self._lines: list[str] = []
        self._positions: list[int] = []
        self._next = 0

    def start(self, config: Mapping[str, str]) -> None:
        self._settings = FileSourceConfig.parse(config)
        self._partition: dict[str, Any] = {FILENAME: self._settings.file}
        if self._settings.file is None:
            self._fd = sys.stdin.fileno()

    def poll(self) -> Sequence[SourceRecord] | None:
        if self._next >= len(self._lines):
            self._fetch()
        return self._take_records() if self._next < len(self._lines) else None

    def _take_records(self) -> list[SourceRecord]:
        start, stop = self._next, min(self._next + self._settings.batch_size, len(self._lines))
        self._next = stop
        partition, topic, schema = self._partition, self._settings.topic, Schema.STRING
        now_ms = time.time_ns() // 1_000_000
        if self._settings.file is None:
            nowhere = {POSITION: None}
            return [
                SourceRecord(partition, nowhere, topic, None, None, None, schema, line, now_ms)
                for line in self._lines[start:stop]
            ]
        records = []
        new = SourceRecord.__new__  # the hot loop: setting attributes directly avoids a call per line
        for line, position in zip(self._lines[start:stop], self._positions[start:stop], strict=True):
            record = new(SourceRecord)
            record.source_partition, record.source_offset = partition, {POSITION: position}
            record.topic, record.partition, record.timestamp = topic, None, now_ms
            record.key_schema = record.key = record.headers = None
            record.value_schema, record.value = schema, line
            records.append(record)
        return records

    def _fetch(self) -> None:
        """Reads until there is a line, at most for a second or two."""
        started_s = time.monotonic()
        deadline = started_s + (IDLE_TIMEOUT_S if started_s < self._last_line_s + QUIET_AFTER_S else QUIET_IDLE_TIMEOUT_S)
        while not self._stopping:
            block = self._read_block(deadline)
            if block:
                self._poll_interval_s = MIN_POLL_INTERVAL_S
                self._last_line_s = time.monotonic()
                self._lines, self._positions = self._splitter.feed(block)
                self._next = 0
                if self._lines:
                    return
            else:
                self._wait(deadline - time.monotonic())
                if time.monotonic() >= deadline and not self._wake.is_set():
                    return  # the next poll reads first

    def _wait(self, timeout_s: float) -> None:
        """Waits until the file should be read again, at most ``timeout_s``."""
        path = self._settings.file
        if path is None or self._poll_interval_s < MAX_POLL_INTERVAL_S:
            self._wake.wait(min(self._poll_interval_s, timeout_s))
            self._poll_interval_s = min(self._poll_interval_s * 2, MAX_POLL_INTERVAL_S)
            return
        if self._watch is None:
            self._watch = SHARED_WATCH.acquire()
        self._wake.clear()
        if not self._stopping:  # a stop just before was cleared too
            self._watch.wait(path, self._known_state(), self._wake, timeout_s)

    def _known_state(self) -> FileState:
        """The state of the file while it has nothing new for this task."""
        if self._fd < 0:
            return None
        read = os.fstat(self._fd)
        return read.st_dev, read.st_ino, self._splitter.position + self._splitter.pending_bytes

    def _read_block(self, deadline: float) -> bytes:
        if self._settings.file is None:
            wait_s = min(MAX_POLL_INTERVAL_S, max(deadline - time.monotonic(), 0))
            ready, _, _ = select.select([self._fd], [], [], wait_s)
            return os.read(self._fd, BLOCK_BYTES) if ready else b""
        if self._fd < 0 and not self._open(self._settings.file):
            return b""
        block = os.read(self._fd, BLOCK_BYTES)
        if not block and self._was_replaced(self._settings.file):
            self._reopen_from_start(self._settings.file)
        return block

    def _open(self, path: str) -> bool:
        try:
            self._fd = _open_file(path)
        except FileNotFoundError:
            _log.debug("Couldn't find file %s, waiting for it to be created", path)
            return False
        self._owns_fd = True
        position = self._stored_position()
        if position > os.fstat(self._fd).st_size:
            _log.warning(
                "%s is shorter than the stored position %d: it was truncated or replaced; reading from its start", path, position
            )
            position = 0
        os.lseek(self._fd, position, os.SEEK_SET)
        self._splitter = LineSplitter(position)
        _log.info("Opened %s at position %d", path, position)
        return True

    def _stored_position(self) -> int:
        offset = self.context.offset_reader.offset(self._partition)
        position = None if offset is None else offset.get(POSITION)
        if position is None:
            return 0
        if type(position) is not int or position < 0:
            raise ConnectError(
                f"Offset position is the incorrect type: {position!r} for {self._settings.file}, expected a byte count"
            )
        return position

    def _was_replaced(self, path: str) -> bool:
        """Whether the file was truncated, or another file has its name now."""
        here = os.fstat(self._fd)
        if here.st_size < self._splitter.position + self._splitter.pending_bytes:
            return True
        try:
            there = os.stat(path)
        except FileNotFoundError:
            return False  # moved; continue with the open file until there is a new one
        return (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino)

    def _reopen_from_start(self, path: str) -> None:
        _log.warning("%s was truncated or replaced; reading from its start", path)
        os.close(self._fd)
        self._fd = -1
        try:
            self._fd = _open_file(path)
        except (FileNotFoundError, ConnectError) as e:
            self._owns_fd = False
            raise e if isinstance(e, ConnectError) else ConnectError(f"Cannot read {path}: {e.strerror}") from e
        self._splitter = LineSplitter(0)
        self._poll_interval_s = MIN_POLL_INTERVAL_S

    def progress(self) -> Mapping[str, Any]:
        return {FILENAME: self._settings.file, POSITION: self._splitter.position} if self._settings.file else {}

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()

    def close(self) -> None:
        if self._watch is not None:
            self._watch = None
            SHARED_WATCH.release()
        if self._owns_fd and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


def _open_file(path: str) -> int:
    """Opens a file. Raises FileNotFoundError, or ConnectError if it cannot be read for another reason."""
    try:
        fd = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        raise
    except OSError as e:
        raise ConnectError(f"Cannot read {path}: {e.strerror}") from e
    try:
        path_rules().require_open_file(fd, path)
    except ConfigError:
        os.close(fd)
        raise
    if stat.S_ISDIR(os.fstat(fd).st_mode):
        os.close(fd)
        raise ConnectError(
            f"Cannot read {path}: it is a directory; set {FILE} to a file in it, and create a connector for each file"
        )
    return fd
