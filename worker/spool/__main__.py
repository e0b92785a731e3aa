"""``python -m worker.spool [--mode=stream|load|schema] [--columns] PROPERTIES``: runs a source connector into a spool.

With ``--columns``, for queries that read tables, records can be columns instead of bytes.

It ends when it is asked to (SIGTERM, SIGINT), soon after the query that reads the spool has ended in any way, when none has
started within ``spool.idle.timeout.ms``, when connector or task have failed for good (exit code 1), and except for
streams when everything that exists is in the spool. The status is in the spool.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Sequence

from connect.config.properties import read_properties
from connect.errors import ConnectError
from connect.main_process import StopSignals, exit_with, freeze_gc, tune_gc
from connect.plugins import Plugins
from connect.spool.config import parse_settings
from connect.spool.locks import READER, SpoolLock
from connect.spool.status import WriterState, WriterStatus, write_status
from connect.spool.writer import SpoolWriter
from worker.config.secrets import SecretMask
from worker.executors.allocator import keep_freed_memory
from worker.observability.log_setup import set_up_logging
from worker.spool.config import parse_spooler_config
from worker.spool.output import SpoolMode
from worker.spool.spooler import Spooler

log = logging.getLogger(__name__)

EXIT_FAILED, EXIT_CONFIG = 1, 2
_TICK_S = 0.1
_LEFT_S = 3.0
"""How long the connector runs after a query: one that restarts can take over."""
_COLUMNS = "--columns"
_USAGE = f"usage: python -m worker.spool [--mode=stream|load|schema] [{_COLUMNS}] PROPERTIES"
_MODES = {f"--mode={mode.value}": mode for mode in SpoolMode}


def main(arguments: Sequence[str]) -> int:
    """Runs the spooler. Returns the exit code."""
    files = [one for one in arguments if one not in _MODES and one != _COLUMNS]
    if len(files) != 1:
        sys.stderr.write(f"{_USAGE}\n")
        return EXIT_CONFIG
    mode = next((_MODES[one] for one in arguments if one in _MODES), SpoolMode.STREAM)
    tune_gc()
    keep_freed_memory()
    mask = SecretMask()
    set_up_logging(mask)
    stop = StopSignals()
    try:
        properties = dict(read_properties(files[0]))
        mask.add(properties)
        settings = parse_settings(properties)
        writer = SpoolWriter(settings.location, properties.get("name", "spool"))
    except ConnectError as e:
        log.error("The spool cannot be opened: %s", mask.mask(e.message))
        return EXIT_CONFIG
    try:
        status = _run(properties, writer, mask, stop, mode, keeps_columns=_COLUMNS in arguments)
    except ConnectError as e:
        log.exception("The connector failed")
        error = mask.mask(e.message)
        status = WriterStatus(WriterState.FAILED, os.getpid(), error)
    log.info("The spooler ends: %s", status.state.value)
    try:
        write_status(settings.location, status)
    finally:
        writer.close()
    return EXIT_FAILED if status.state is WriterState.FAILED else 0


def _run(
    properties: dict[str, str],
    writer: SpoolWriter,
    mask: SecretMask,
    stop: StopSignals,
    mode: SpoolMode,
    *,
    keeps_columns: bool,
) -> WriterStatus:
    """Runs the connector to its end, and returns how that was. Raises ConnectError."""
    pid = os.getpid()
    write_status(writer.directory, WriterStatus(WriterState.STARTING, pid))
    plugins = Plugins.discover()
    config = parse_spooler_config(properties, plugins, mask)
    spooler = Spooler(config, plugins, writer, mask, mode, keeps_columns=keeps_columns)
    try:
        try:
            spooler.start()
            freeze_gc()
            write_status(writer.directory, WriterStatus(WriterState.RUNNING, pid))
            failure = _watch(spooler, SpoolLock(writer.directory, READER), config.spool.idle_timeout_s, stop)
            has_loaded = spooler.has_loaded
        finally:
            spooler.close()
    except Exception as e:
        raise e if isinstance(e, ConnectError) else ConnectError(f"{type(e).__name__}: {e}") from e
    if failure is not None:
        return WriterStatus(WriterState.FAILED, pid, mask.mask(failure))
    return WriterStatus(WriterState.LOADED if has_loaded else WriterState.STOPPED, pid)


def _watch(spooler: Spooler, reader: SpoolLock, idle_timeout_s: float, stop: StopSignals) -> str | None:
    """Serves the spool until it ends. Returns why the connector failed, or None."""
    ends_at = time.monotonic() + idle_timeout_s
    last_failure = None
    while not stop.wait(_TICK_S):
        spooler.confirm()
        # Twice: a failed task is FAILED for a moment before its restart is scheduled.
        if (failure := spooler.failure()) is not None and failure == last_failure:
            return failure
        last_failure = failure
        if spooler.has_loaded:
            return None
        if not reader.is_free():
            ends_at = time.monotonic() + _LEFT_S
        elif time.monotonic() > ends_at:
            log.info("No query reads the spool")
            return None
    return None


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]), EXIT_FAILED)
