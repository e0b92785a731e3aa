"""The source task of both connectors."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from connect.metrics import Metric
from connectors.cdc.offsets import source_partition
from connectors.cdc.retries import RetrySchedule
from connectors.cdc.task import CaptureTask
from connectors.mysql.capture import MySqlCapture
from connectors.mysql.config import parse_config
from connectors.mysql.metrics import progress_metrics
from connectors.mysql.offsets import parse_offset


class MySqlSourceTask(CaptureTask):
    """Captures changes of MySQL."""

    is_mariadb: ClassVar[bool] = False
    _capture: MySqlCapture | None

    def start(self, config: Mapping[str, str]) -> None:
        settings = parse_config(config, is_mariadb=self.is_mariadb)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        capture = MySqlCapture(settings, parse_offset(offset) if offset else None, self.context.open_owned_topic)
        capture.signals.open_channels(self.context, offset or {})
        schedule = RetrySchedule(settings.max_retries, settings.max_backoff_s)
        self._begin(capture, schedule, settings.snapshot.delay_s, settings.snapshot.streaming_delay_s)

    def metrics(self) -> Sequence[Metric]:
        return list(progress_metrics(self.progress(), time.time()))

    def close(self) -> None:
        if self._capture is not None:
            self._capture.close()


class MariaDbSourceTask(MySqlSourceTask):
    """Captures changes of MariaDB."""

    is_mariadb = True
