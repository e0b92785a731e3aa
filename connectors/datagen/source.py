"""DatagenSource: generates sample records at a given rate, reproducible by seed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from connect.config.definition import ConfigDef, ConfigValue
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.datagen.config import CONFIG, TASK_ID, TASKS, DatagenConfig, check_sources

GENERATION = "task.generation"
ITERATION = "current.iteration"
SEED = "random.seed"
MAX_BATCH_RECORDS = 1000
BLOCK_ROWS = 1000
MAX_WAIT_S = 1.0
_log = logging.getLogger(__name__)


class DatagenSource(SourceConnector):
    """Generates records. ``io.confluent.kafka.connect.datagen.DatagenConnector``; unlike that, tasks idle at the end."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return CONFIG

    def check_config(self, config: Mapping[str, str]) -> list[ConfigValue]:
        return check_sources(super().check_config(config), config, reads_file=False)

    def validate(self, config: Mapping[str, str]) -> list[ConfigValue]:
        """Checks the keys, and the schema also if it is in a file."""
        return check_sources(super().check_config(config), config, reads_file=True)

    def start(self, config: Mapping[str, str]) -> None:
        DatagenConfig.parse(config)
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return DatagenSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._config, TASK_ID: str(task), TASKS: str(max_tasks)} for task in range(max_tasks)]

    def stop(self) -> None:
        """Does nothing: only the tasks run."""

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        return ExactlyOnceSupport.SUPPORTED

    def alter_offsets(
        self, config: Mapping[str, str], offsets: Mapping[tuple[tuple[str, Any], ...], Mapping[str, Any] | None]
    ) -> bool:
        for offset in offsets.values():
            iteration = None if offset is None else offset.get(ITERATION)
            if offset is not None and (type(iteration) is not int or iteration < 0):
                raise ConnectError(
                    f"The value for the '{ITERATION}' key in the offset is {iteration!r}, expected an integer >= 0"
                )
        return True

    def sample_records(self, config: Mapping[str, str], count: int) -> Sequence[SourceRecord]:
        task = DatagenSourceTask()
        task.resume_from({TASK_ID: "0", TASKS: "1", **config}, {})
        return [task.record(iteration) for iteration in range(count)]


class DatagenSourceTask(SourceTask):
    """Generates the rows of one task. Row n depends only on seed, task, and n; the offset is the number of rows."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._block = -1
        self._rows: list[list[Any]] = []

    def start(self, config: Mapping[str, str]) -> None:
        partition = {TASK_ID: DatagenConfig.parse(config).task_id}
        self.resume_from(config, self.context.offset_reader.offset(partition) or {})

    def resume_from(self, config: Mapping[str, str], stored: Mapping[str, Any]) -> None:
        """Continues from a stored offset, which is empty at first."""
        self._settings = settings = DatagenConfig.parse(config)
        self._schema = schema = settings.rows.schema
        self._partition = {TASK_ID: settings.task_id}
        key_field = None if settings.key_field is None else schema.field(settings.key_field)
        self._key_index = None if key_field is None else key_field.index
        self._key_schema = None if key_field is None else key_field.schema
        self._generated = int(stored.get(ITERATION, 0))
        self._generation = int(stored.get(GENERATION, -1)) + 1
        self._generated_at_start = self._generated
        self._started_s = self._monotonic()
        self._pauses = Random()

    def poll(self) -> Sequence[SourceRecord] | None:
        number = self._wait_for_due_records()
        if number <= 0:
            return None
        first = self._generated
        self._generated += number
        return [self.record(iteration) for iteration in range(first, first + number)]

    def _wait_for_due_records(self) -> int:
        """Returns how many records are due; waits for the first one, at most about a second."""
        settings = self._settings
        left = MAX_BATCH_RECORDS if settings.limit is None else settings.limit - self._generated
        if left <= 0:
            self._stopped.wait(MAX_WAIT_S)
            return 0
        if settings.rate:
            generated = self._generated - self._generated_at_start
            wait_s = self._started_s + (generated + 1) / settings.rate - self._monotonic()
            if wait_s > 0 and (self._stopped.wait(min(wait_s, MAX_WAIT_S)) or wait_s > MAX_WAIT_S):
                return 0
            due = int((self._monotonic() - self._started_s) * settings.rate) - generated
            return min(max(due, 1), left, MAX_BATCH_RECORDS)
        if settings.rate is None and settings.max_interval_ms > 0:
            return 0 if self._stopped.wait(self._pauses.random() * settings.max_interval_ms / 1000) else 1
        return 0 if self._stopped.is_set() else min(left, MAX_BATCH_RECORDS)

    def record(self, iteration: int) -> SourceRecord:
        """Builds the record of one row."""
        row = self._row(iteration)
        settings = self._settings
        headers = Headers(
            (
                Header(GENERATION, Schema.INT64, self._generation),
                Header(TASK_ID, Schema.INT64, settings.task_id),
                Header(ITERATION, Schema.INT64, iteration),
            )
        )
        offset = {GENERATION: self._generation, ITERATION: iteration + 1, SEED: settings.seed}
        key = None if self._key_index is None else row[self._key_index]
        schema = self._schema
        return SourceRecord(
            self._partition, offset, settings.topic, None, self._key_schema, key, schema, Struct(schema, row), None, headers
        )

    def _row(self, iteration: int) -> list[Any]:
        # Each block of rows has its own random generator, so that a task that continues in the middle generates the same rows.
        block, position = divmod(iteration, BLOCK_ROWS)
        if block != self._block:
            random = Random(f"{self._settings.seed}/{self._settings.task_id}/{block}")
            row = self._settings.rows.row
            self._rows = [row(random, block * BLOCK_ROWS + i) for i in range(BLOCK_ROWS)]
            self._block = block
        return self._rows[position]

    def progress(self) -> Mapping[str, Any]:
        return {"made": self._generated, "limit": self._settings.limit}

    def stop(self) -> None:
        self._stopped.set()
