"""Tasks of the JDBC sinks. Each batch of records is one transaction."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from connect.errors import ConnectError, DataError, RetriableError
from connect.metrics import Metric, MetricKind
from connect.record import SinkRecord, TopicPartition
from connect.sink import SinkTask
from connectors.jdbc.database import StopRequested
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.errors import DatabaseUnreachableError, StatementError
from connectors.jdbc.flavor import ConnectorFlavor
from connectors.jdbc.sink.config import SinkWriterConfig, parse_sink_config
from connectors.jdbc.sink.planner import JdbcSinkPlanner
from connectors.jdbc.sink.row_changes import ChangePlanner, ErrantRecord, ErrantRecordError
from connectors.jdbc.sink.writer import JdbcBatchWriter
from connectors.sink_support.errant_records import ErrantRecordHandler, describe_location

log = logging.getLogger(__name__)


class BaseJdbcSinkTask(SinkTask):
    """Writes records in ``put``, which returns after the commit (promise 2), so ``flush`` has nothing to do."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._writer: JdbcBatchWriter | None = None
        self._failures = 0
        self._written = 0

    @abstractmethod
    def _parse_config(self, config: Mapping[str, str]) -> tuple[SinkWriterConfig, Callable[[Dialect], ChangePlanner]]:
        """Returns how to write, and a function that creates the planner. Raises ConfigError."""

    def start(self, config: Mapping[str, str]) -> None:
        self._settings, planner_for = self._parse_config(config)
        self._writer = JdbcBatchWriter(self._settings, self._stop)
        self._planner = planner_for(self._writer.dialect)
        self._errant_records = ErrantRecordHandler(self.context.errant_record_reporter)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        assert self._writer is not None
        try:
            errant = self._writer.write(self._planner, records)
        except ErrantRecordError as e:
            raise self._report_fatal(e.errant) from e.errant.error
        except StatementError as e:
            if not self._stop.is_set():
                raise
            raise RetriableError(f"the task was stopped while writing: {e.message}") from e
        except (RetriableError, DatabaseUnreachableError) as e:
            raise self._after_failure(e, len(records)) from e
        except StopRequested as e:
            raise RetriableError("the task was stopped while waiting for the database") from e
        self._failures = 0
        self._written += len(records) - len(errant)
        self._report(errant)

    def _report(self, errant: Sequence[ErrantRecord]) -> None:
        """Reports records after the rest of their batch is committed. Promise 7: the worker commits no offset before the dead
        letter queue has them."""
        for one in errant:
            if self._errant_records.has_reporter:
                self._errant_records.report(one.record, one.error)
            else:
                self._errant_records.skip(f"{_describe(one.record)}: {one.error.message}")
        self._errant_records.log_skipped()

    def _report_fatal(self, errant: ErrantRecord) -> ConnectError:
        """Reports the record that fails the task. Returns the error to raise, unless the reporter raises its own."""
        if self._errant_records.has_reporter:
            self._errant_records.report(errant.record, errant.error)
        else:
            self._errant_records.count += 1
        return DataError(f"{_describe(errant.record)} cannot be written: {errant.error.message}")

    def _after_failure(self, error: ConnectError, count: int) -> ConnectError:
        """Returns a retriable error until the retries are used up. Nothing of the batch was committed."""
        if self._failures >= self._settings.max_retries:
            attempts = f"{self._failures + 1} attempts ({self._settings.retries_key}={self._settings.max_retries})"
            return ConnectError(f"{count} records could not be written in {attempts}: {error.message}")
        self._failures += 1
        left = self._settings.max_retries - self._failures
        log.warning("Write of %d records failed, remainingRetries=%d: %s", count, left, error.message)
        self.context.timeout(self._settings.retry_backoff_ms)
        return RetriableError(error.message)

    def progress(self) -> Mapping[str, Any]:
        if self._writer is None:
            return {}
        return {"database": self._writer.label, "written": self._written, "refused": self._errant_records.count}

    def metrics(self) -> Sequence[Metric]:
        return [
            Metric("jdbc_sink_written_records_total", self._written, "Records written.", MetricKind.COUNTER),
            Metric(
                "jdbc_sink_refused_records_total", self._errant_records.count, "Records reported or skipped.", MetricKind.COUNTER
            ),
        ]

    def stop(self) -> None:
        self._stop.set()
        writer = self._writer
        if writer is not None:
            writer.stop()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _describe(record: SinkRecord) -> str:
    origin = TopicPartition(record.original_topic, record.original_partition)
    return f"Record of {describe_location(origin, record.offset)}"


class JdbcSinkTask(BaseJdbcSinkTask):
    """Task of :class:`connectors.jdbc.JdbcSink`."""

    flavor: ClassVar[ConnectorFlavor] = ConnectorFlavor.CONFLUENT

    def _parse_config(self, config: Mapping[str, str]) -> tuple[SinkWriterConfig, Callable[[Dialect], ChangePlanner]]:
        settings, planner_config = parse_sink_config(config, self.flavor)
        return settings, lambda dialect: JdbcSinkPlanner(planner_config, dialect.parse_name)


class AivenJdbcSinkTask(JdbcSinkTask):
    """Task of :class:`connectors.jdbc.AivenJdbcSink`."""

    flavor = ConnectorFlavor.AIVEN
