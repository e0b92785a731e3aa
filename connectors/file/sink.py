"""FileStreamSink: appends one line per record to a file, or writes it to the standard output."""

from __future__ import annotations

import logging
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import cast

from connect.config.definition import ConfigDef
from connect.connector import SinkConnector
from connect.converters.string import StringConverter
from connect.data.java_text import java_text
from connect.errors import ConnectError
from connect.java.charsets import decode_utf8
from connect.paths import path_rules
from connect.record import RawBatch, SinkRecord
from connect.sink import Offsets, SinkTask
from connectors.file.config import SINK_CONFIG, parse_sink_file

_log = logging.getLogger(__name__)


class FileStreamSink(SinkConnector):
    """Appends records to a file. ``org.apache.kafka.connect.file.FileStreamSinkConnector``."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return SINK_CONFIG

    def start(self, config: Mapping[str, str]) -> None:
        _log.info("Starting file sink connector writing to %s", parse_sink_file(config) or "standard output")
        self._config = dict(config)

    def task_class(self) -> type[SinkTask]:
        return FileStreamSinkTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self._config) for _ in range(max_tasks)]

    def stop(self) -> None:
        """Does nothing: only the tasks run."""


class FileStreamSinkTask(SinkTask):
    """Writes Java's ``toString`` of each value and a newline; a null value is the line ``null``.

    Each batch is appended by one write, so that several tasks can share a file without mixing lines; ``flush`` makes it durable
    (promise 2). With a UTF-8 StringConverter, the bytes of a record are the bytes of its line, so batches are not decoded.
    """

    reports_raw = True  # there are no errant records: any bytes are a line

    def __init__(self) -> None:
        self._fd = -1
        self._owns_fd = False
        self._is_regular = False
        self._written = False

    def start(self, config: Mapping[str, str]) -> None:
        self._path = parse_sink_file(config)
        if self._path is None:
            sys.stdout.flush()
            self._fd = sys.stdout.fileno()
            return
        try:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_CLOEXEC", 0), 0o666)
        except OSError as e:
            raise ConnectError(f"Couldn't find or create file '{self._path}' for FileStreamSinkTask: {e.strerror}") from e
        self._owns_fd = True
        path_rules().require_open_file(self._fd, self._path)
        self._is_regular = stat.S_ISREG(os.fstat(self._fd).st_mode)

    def wants_raw(self) -> bool:
        converter = self.context.value_converter
        return self.context.raw_allowed and type(converter) is StringConverter and converter.is_utf8

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        try:
            text = "\n".join([record.value for record in records])
        except TypeError:
            text = "\n".join([java_text(record.value_schema, record.value) for record in records])
        self._write(text.encode("utf-8", "replace") + b"\n")

    def put_raw(self, batches: Sequence[RawBatch]) -> None:
        parts = []
        for batch in batches:
            if batch.values:
                # Finding None is fast; the list is copied only if it contains one.
                has_null = None in batch.values
                lines = [b"null" if v is None else v for v in batch.values] if has_null else cast("list[bytes]", batch.values)
                parts.append(b"\n".join(lines))
        if not parts:
            return
        parts.append(b"")
        data = b"\n".join(parts)
        if not data.isascii():
            try:
                data.decode()
            except UnicodeDecodeError:
                data = decode_utf8(data).encode("utf-8", "replace")
        self._write(data)

    def _write(self, data: bytes) -> None:
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as e:
            raise ConnectError(f"Cannot write to {self._path or 'standard output'}: {e.strerror}") from e
        self._written = True

    def flush(self, offsets: Offsets) -> None:
        # Promise 2: offsets committed after this call belong to data on the disk.
        if self._written and self._is_regular:
            try:
                os.fsync(self._fd)
            except OSError as e:
                raise ConnectError(f"Cannot flush {self._path}: {e.strerror}") from e
        self._written = False

    def close(self) -> None:
        if self._owns_fd and self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
