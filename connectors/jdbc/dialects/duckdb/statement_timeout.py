"""Cancels DuckDB statements that take longer than ``statement.timeout.ms``: DuckDB has no such limit."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import sqlalchemy

if TYPE_CHECKING:
    from sqlalchemy import Engine


class DuckDbStatementTimer:
    """Interrupts a connection whose driver call takes too long. A limit of 0 ms means none."""

    def __init__(self, limit_ms: int) -> None:
        self._limit_s = limit_ms / 1000

    @contextlib.contextmanager
    def running(self, connection: Any) -> Iterator[None]:
        """Limits the driver calls of the block."""
        timer = self._start(connection)
        try:
            yield
        finally:
            if timer is not None:
                timer.cancel()

    def watch(self, engine: Engine) -> None:
        """Limits statements that run through SQLAlchemy."""
        if not self._limit_s:
            return

        def before(connection: Any, _cursor: Any, _text: Any, _values: Any, context: Any, _many: bool) -> None:
            context.sluice_timer = self._start(connection.connection.dbapi_connection)

        def after(_connection: Any, _cursor: Any, _text: Any, _values: Any, context: Any, _many: bool) -> None:
            context.sluice_timer.cancel()

        def failed(error: Any) -> None:
            timer = getattr(error.execution_context, "sluice_timer", None)
            if timer is not None:
                timer.cancel()

        sqlalchemy.event.listen(engine, "before_cursor_execute", before)
        sqlalchemy.event.listen(engine, "after_cursor_execute", after)
        sqlalchemy.event.listen(engine, "handle_error", failed)

    def _start(self, connection: Any) -> threading.Timer | None:
        if not self._limit_s:
            return None
        timer = threading.Timer(self._limit_s, connection.interrupt)
        timer.daemon = True
        timer.name = "duckdb-statement-timeout"
        timer.start()
        return timer
