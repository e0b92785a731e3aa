"""The source task: what the worker calls, and how failures are retried."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from connect.metrics import Metric
from connect.record import SourceRecord
from connectors.cdc.offsets import source_partition
from connectors.cdc.states import CaptureState
from connectors.cdc.task import DATABASE, CaptureTask
from connectors.postgres.capture import ChangeCapture
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.errors import SlotInUseError, SlotSynchronizedError
from connectors.postgres.monitoring.metrics import progress_metrics
from connectors.postgres.offsets import parse_offset
from connectors.postgres.retries import SlotRetrySchedule
from connectors.postgres.streaming import slots

log = logging.getLogger(__name__)


class PostgresSourceTask(CaptureTask):
    """The only task of a connector, because a slot has one reader."""

    settings: PostgresConfig
    retried = (*CaptureTask.retried, SlotSynchronizedError)
    confirmed_point = "postgres.confirmed"
    _capture: ChangeCapture | None
    _retries: SlotRetrySchedule

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_config(config)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        capture = ChangeCapture(settings, parse_offset(offset) if offset else None, self.pending_work)
        capture.signals.open_channels(self.context, offset or {})
        snapshot = settings.snapshot
        self._begin(capture, SlotRetrySchedule(settings), snapshot.delay_s, snapshot.streaming_delay_s)

    def poll(self) -> Sequence[SourceRecord] | None:
        try:
            return super().poll()
        except SlotInUseError as e:
            assert self._capture is not None
            self._wait_for_slot(self._capture, e)
            return None

    def metrics(self) -> Sequence[Metric]:
        return list(progress_metrics(self.progress(), self.settings.slot.name))

    def close(self) -> None:
        capture = self._capture
        if capture is None:
            return
        capture.monitor.close()
        capture.disconnect()
        capture.signals.close_channels()
        if self._stopped and capture.uses_slot and self.settings.slot.drop_on_stop:
            slots.drop_slot_on_stop(self.settings.address, self.settings.slot.name)
        capture.sessions.interrupt.close()

    def _wait_for_slot(self, capture: ChangeCapture, error: SlotInUseError) -> None:
        capture.disconnect()
        if self._retries.slot_in_use(error):
            log.warning("%s; waiting until the slot is free", error.message)
        capture.state = CaptureState.WAITING_FOR_SLOT
        self.pending_work.begin(
            DATABASE, f"the replication slot is in use, and the source waits until it is free: {error.message}"
        )
