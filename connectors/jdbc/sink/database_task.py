"""What the sink tasks of all faces share: a batch of records is one transaction."""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from connect.errors import ConnectError, RetriableError
from connect.record import SinkRecord
from connect.sink import SinkTask
from connectors.jdbc.database import StopRequested
from connectors.jdbc.dialects.dialect import Dialect
from connectors.jdbc.errors import DatabaseUnreachableError, StatementError
from connectors.jdbc.sink.errant_records import Refusals
from connectors.jdbc.sink.row_changes import Planner, RefusedError
from connectors.jdbc.sink.writer import SinkEngine
from connectors.jdbc.sink.writer_config import SinkSettings

log = logging.getLogger(__name__)


class DatabaseSinkTask(SinkTask):
    """``put`` returns after the commit (promise 2), so ``flush`` has nothing to do."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self._engine: SinkEngine | None = None
        self._failures = 0
        self._written = 0

    @abstractmethod
    def _prepared(self, config: Mapping[str, str]) -> tuple[SinkSettings, Callable[[Dialect], Planner]]:
        """What the configuration says. Raises ConfigError."""

    def start(self, config: Mapping[str, str]) -> None:
        self._settings, planner_for = self._prepared(config)
        self._engine = SinkEngine(self._settings, self._stop)
        self._planner = planner_for(self._engine.dialect)
        self._refusals = Refusals(self.context.errant_record_reporter)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if not records:
            return
        assert self._engine is not None
        try:
            refused = self._engine.write(self._planner, records)
        except RefusedError as e:
            raise self._refusals.fatal(e.refused) from e.refused.error
        except StatementError as e:
            if not self._stop.is_set():
                raise
            raise RetriableError(f"the task was stopped while it wrote: {e.message}") from e
        except (RetriableError, DatabaseUnreachableError) as e:
            raise self._lost(e, len(records)) from e
        except StopRequested as e:
            raise RetriableError("the task was stopped while it waited for the database") from e
        self._failures = 0
        self._written += len(records) - len(refused)
        self._refusals.report(refused)

    def _lost(self, error: ConnectError, count: int) -> ConnectError:
        """Nothing of the batch was committed; the worker hands the same records again, or the task ends."""
        if self._failures >= self._settings.max_retries:
            attempts = f"{self._failures + 1} attempts ({self._settings.retries_key}={self._settings.max_retries})"
            return ConnectError(f"{count} records could not be written in {attempts}: {error.message}")
        self._failures += 1
        left = self._settings.max_retries - self._failures
        log.warning("Write of %d records failed, remainingRetries=%d: %s", count, left, error.message)
        self.context.timeout(self._settings.retry_backoff_ms)
        return RetriableError(error.message)

    def progress(self) -> Mapping[str, Any]:
        if self._engine is None:
            return {}
        return {"database": self._engine.label, "written": self._written, "refused": self._refusals.count}

    def stop(self) -> None:
        self._stop.set()
        engine = self._engine
        if engine is not None:
            engine.stop()

    def close(self) -> None:
        if self._engine is not None:
            self._engine.close()
            self._engine = None
