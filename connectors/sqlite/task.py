"""The source task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.metrics import Metric
from connectors.cdc.offsets import source_partition
from connectors.cdc.retries import RetrySchedule
from connectors.cdc.task import CaptureTask
from connectors.sqlite.capture import SqliteCapture
from connectors.sqlite.config import SqliteConfig, parse_config
from connectors.sqlite.metrics import progress_metrics


class SqliteSourceTask(CaptureTask):
    """The only task of a connector, because a change table has one reader."""

    settings: SqliteConfig
    confirmed_point = "sqlite.deleted"
    _capture: SqliteCapture | None

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_config(config)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        capture = SqliteCapture(settings, offset)
        capture.signals.open(self.context, offset or {})
        retries = RetrySchedule(settings.max_retries, settings.max_backoff_s)
        self._begin(capture, retries, settings.snapshot.delay_s, settings.snapshot.streaming_delay_s)

    def metrics(self) -> Sequence[Metric]:
        return list(progress_metrics(self.progress(), self.settings.topic_prefix))

    def close(self) -> None:
        capture = self._capture
        if capture is None:
            return
        capture.disconnect()
        capture.signals.close()
        if self._stopped and self.settings.drops_on_stop:
            capture.drop()
        capture.sessions.interrupt.close()
