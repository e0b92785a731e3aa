"""DatagenSource: made-up records at a wished rate, the same for the same seed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from connect.config.definition import ConfigDef
from connect.connector import ExactlyOnceSupport, SourceConnector
from connect.data.headers import Header, Headers
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.errors import ConnectError
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.datagen.config import CONFIG, TASK_ID, TASKS, Settings
from connectors.datagen.quickstarts import QUICKSTARTS

GENERATION = "task.generation"
ITERATION = "current.iteration"
SEED = "random.seed"
BATCH = 1000
BLOCK = 1000
LONGEST_WAIT_S = 1.0
_log = logging.getLogger(__name__)


class DatagenSource(SourceConnector):
    """Makes records up. ``io.confluent.kafka.connect.datagen.DatagenConnector``; other than that, it idles when all are made."""

    def __init__(self) -> None:
        self._config: dict[str, str] = {}

    def config_def(self) -> ConfigDef:
        return CONFIG

    def start(self, config: Mapping[str, str]) -> None:
        Settings.parse(config)
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return DatagenSourceTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self._config, TASK_ID: str(task), TASKS: str(max_tasks)} for task in range(max_tasks)]

    def stop(self) -> None:
        """Nothing runs beside the tasks."""

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
        task.begin({TASK_ID: "0", TASKS: "1", **config}, {})
        return [task.record(iteration) for iteration in range(count)]


class DatagenSourceTask(SourceTask):
    """Makes the rows of one task. Row n depends on the seed, the task and n only; the offset is the number of rows made."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._stopped = threading.Event()
        self._block = -1
        self._rows: list[list[Any]] = []

    def start(self, config: Mapping[str, str]) -> None:
        partition = {TASK_ID: Settings.parse(config).task_id}
        self.begin(config, self.context.offset_reader.offset(partition) or {})

    def begin(self, config: Mapping[str, str], stored: Mapping[str, Any]) -> None:
        """Goes on from a stored offset, which is empty at first."""
        self._settings = settings = Settings.parse(config)
        self._shape = QUICKSTARTS[settings.quickstart]
        self._partition = {TASK_ID: settings.task_id}
        key_field = None if settings.key_field is None else self._shape.schema.field(settings.key_field)
        self._key_index = None if key_field is None else key_field.index
        self._key_schema = None if key_field is None else key_field.schema
        self._made = int(stored.get(ITERATION, 0))
        self._generation = int(stored.get(GENERATION, -1)) + 1
        self._made_at_start = self._made
        self._started_s = self._monotonic()
        self._pauses = Random()

    def poll(self) -> Sequence[SourceRecord] | None:
        number = self._due()
        if number <= 0:
            return None
        first = self._made
        self._made += number
        return [self.record(iteration) for iteration in range(first, first + number)]

    def _due(self) -> int:
        """How many records are to be made now; waits for the first of them, not longer than about a second."""
        settings = self._settings
        left = BATCH if settings.limit is None else settings.limit - self._made
        if left <= 0:
            self._stopped.wait(LONGEST_WAIT_S)
            return 0
        if settings.rate:
            made = self._made - self._made_at_start
            wait_s = self._started_s + (made + 1) / settings.rate - self._monotonic()
            if wait_s > 0 and (self._stopped.wait(min(wait_s, LONGEST_WAIT_S)) or wait_s > LONGEST_WAIT_S):
                return 0
            due = int((self._monotonic() - self._started_s) * settings.rate) - made
            return min(max(due, 1), left, BATCH)
        if settings.rate is None and settings.max_interval_ms > 0:
            return 0 if self._stopped.wait(self._pauses.random() * settings.max_interval_ms / 1000) else 1
        return 0 if self._stopped.is_set() else min(left, BATCH)

    def record(self, iteration: int) -> SourceRecord:
        """The record of one row."""
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
        schema = self._shape.schema
        return SourceRecord(
            self._partition, offset, settings.topic, None, self._key_schema, key, schema, Struct(schema, row), None, headers
        )

    def _row(self, iteration: int) -> list[Any]:
        # Rows come in blocks with a random source each, so that a task that goes on in the middle makes what it would have.
        block, position = divmod(iteration, BLOCK)
        if block != self._block:
            random = Random(f"{self._settings.seed}/{self._settings.task_id}/{block}")
            self._rows = [self._shape.row(random, block * BLOCK + i) for i in range(BLOCK)]
            self._block = block
        return self._rows[position]

    def progress(self) -> Mapping[str, Any]:
        return {"made": self._made, "limit": self._settings.limit}

    def stop(self) -> None:
        self._stopped.set()
