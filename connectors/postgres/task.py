"""The source task: what the worker calls, and how failures are retried."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from connect import crash_points
from connect.errors import BadRequestError, ConnectError, UnreachableError
from connect.metrics import Metric
from connect.pending_work import PendingWork
from connect.record import SourceRecord
from connect.source import SourceTask
from connectors.cdc.errors import ConnectionLostError, SourceChangedError, TablesChangedError, WaitInterrupted
from connectors.cdc.offsets import source_partition
from connectors.cdc.signals.actions import Signal, find_problem
from connectors.postgres.capture import ChangeCapture
from connectors.postgres.config import PostgresConfig, parse_config
from connectors.postgres.errors import SlotInUseError, SlotSynchronizedError
from connectors.postgres.monitoring.metrics import progress_metrics
from connectors.postgres.offsets import parse_offset
from connectors.postgres.retries import SlotRetrySchedule
from connectors.postgres.states import CaptureState
from connectors.postgres.streaming import slots

log = logging.getLogger(__name__)

_DATABASE = "database"


class PostgresSourceTask(SourceTask):
    """The only task of a connector, because a slot has one reader."""

    settings: PostgresConfig

    def __init__(self) -> None:
        self.pending_work: PendingWork = PendingWork()
        self._capture: ChangeCapture | None = None
        self._stopped = False
        self._failure: ConnectError | None = None

    def start(self, config: Mapping[str, str]) -> None:
        self.settings = settings = parse_config(config)
        offset = self.context.offset_reader.offset(source_partition(settings.topic_prefix))
        self._retries = SlotRetrySchedule(settings)
        if settings.snapshot.delay_s:
            self._retries.wait(settings.snapshot.delay_s)
        capture = self._capture = ChangeCapture(settings, parse_offset(offset) if offset else None, self.pending_work)
        capture.signals.open_channels(self.context, offset or {})
        if self._stopped:
            capture.sessions.interrupt.set()
        try:
            capture.check()
        except WaitInterrupted:
            return
        except (ConnectionLostError, UnreachableError) as e:
            self._reconnect_later(capture, e)

    def poll(self) -> Sequence[SourceRecord] | None:
        capture = self._capture
        if self._stopped or capture is None:
            return None
        if self._failure is not None:
            raise self._failure
        before = capture.state
        try:
            if (remaining_s := self._retries.remaining_s()) > 0:
                capture.sessions.interrupt.wait(min(remaining_s, 1.0))
                return None
            records = capture.read()
        except WaitInterrupted:
            return None
        except SlotInUseError as e:
            self._wait_for_slot(capture, e)
            return None
        except (ConnectionLostError, SlotSynchronizedError, SourceChangedError, TablesChangedError, UnreachableError) as e:
            self._reconnect_later(capture, e)
            return capture.take_records() or None
        except ConnectError as e:
            if not (records := capture.take_records()):
                raise
            self._failure = e  # after the records that were read before it
            return records
        self.pending_work.end(_DATABASE)
        self._on_transition(before, capture.state)
        return records or None

    def _on_transition(self, before: CaptureState, now: CaptureState) -> None:
        if now is before:
            return
        if now in (CaptureState.STREAMING, CaptureState.CATCHING_UP):
            self._retries.connected()
        elif now is CaptureState.SNAPSHOT_COMPLETED:
            self._retries.wait(self.settings.snapshot.streaming_delay_s)

    def has_more(self) -> bool:
        return self._capture is not None and self._capture.has_more

    def is_loaded(self) -> bool:
        return self._capture is not None and self._capture.is_loaded()

    def update_offsets(
        self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]
    ) -> Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        return () if self._capture is None else self._capture.update_offsets(offsets)

    def commit(self, offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> None:
        if self._capture is None:
            return
        if self._capture.offsets_stored(offsets):
            crash_points.point("postgres.confirmed")
        self._capture.signals.offsets_stored(offsets)

    def progress(self) -> Mapping[str, Any]:
        return {"phase": CaptureState.STARTING.value} if self._capture is None else self._capture.progress()

    def metrics(self) -> Sequence[Metric]:
        return list(progress_metrics(self.progress(), self.settings.slot.name))

    def signal(self, signal_id: str, type: str, data: str | None) -> None:
        signal = Signal(signal_id, type, data)
        if (problem := find_problem(signal)) is not None:
            raise BadRequestError(problem)
        if self._capture is not None:
            self._capture.signals.receive(signal)

    def stop(self) -> None:
        self._stopped = True
        if self._capture is not None:
            self._capture.sessions.interrupt.set()

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

    def _reconnect_later(self, capture: ChangeCapture, error: ConnectError) -> None:
        capture.disconnect()
        wait_s = self._retries.connection_lost(error)
        capture.state = CaptureState.RECONNECTING
        self.pending_work.begin(_DATABASE, f"the source has no connection to the database and tries again: {error.message}")
        log.warning("%s; retrying in %.1f s", error.message, wait_s)

    def _wait_for_slot(self, capture: ChangeCapture, error: SlotInUseError) -> None:
        capture.disconnect()
        if self._retries.slot_in_use(error):
            log.warning("%s; waiting until the slot is free", error.message)
        capture.state = CaptureState.WAITING_FOR_SLOT
        self.pending_work.begin(
            _DATABASE, f"the replication slot is in use, and the source waits until it is free: {error.message}"
        )
