"""``connect-standalone WORKER.properties [CONNECTOR.properties|.json ...]``: Apache's command line.

Apache's exit codes: 1 invalid usage, 2 the worker cannot start, 3 a connector of the command line cannot be created. Sluice adds
4: shutdown hung.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from connect.errors import ConnectError
from connect.main_process import exit_with, freeze_gc, tune_gc
from sluice.run.process import (
    EXIT_CONNECTOR,
    EXIT_STARTUP,
    EXIT_USAGE,
    REST_STOP_S,
    stop_on_signals,
)
from sluice.run.shutdown_watchdog import ShutdownWatchdog

if TYPE_CHECKING:
    from rest.rest_server import RestServer
    from worker.model import TargetState
    from worker.standalone.herder import StandaloneHerder

log = logging.getLogger("sluice.run.standalone")

USAGE = "Usage: connect-standalone worker.properties [connector1.properties connector2.json ...]"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a worker until SIGTERM or SIGINT, then ends the process with the exit code."""
    exit_with(lambda: run(sys.argv[1:] if argv is None else argv), EXIT_STARTUP)


def run(argv: Sequence[str]) -> int:
    """Runs a worker and returns the exit code. Call it in the main thread, since it installs signal handlers."""
    if not argv or "--help" in argv or "-h" in argv:
        print(USAGE, file=sys.stderr)
        return EXIT_USAGE
    started_at = time.monotonic()
    stop, watchdog = threading.Event(), ShutdownWatchdog()
    stop_on_signals(stop, watchdog)
    tune_gc()
    return _run(argv[0], argv[1:], stop, watchdog, started_at)


def _run(
    worker_file: str, connector_files: Sequence[str], stop: threading.Event, watchdog: ShutdownWatchdog, started_at: float
) -> int:
    from worker.config.secrets import SecretMask
    from worker.observability.log_setup import follow_log_format, set_up_logging
    from worker.observability.recent_logs import keep_recent_logs

    mask = SecretMask()
    set_up_logging(mask)
    keep_recent_logs(mask)
    try:
        from connect.config.properties import read_properties
        from worker.config.worker_config import WorkerConfig

        props = dict(read_properties(worker_file))
        mask.add(props)
        follow_log_format(mask, props)
        config = WorkerConfig.standalone(props, mask)
        follow_log_format(mask, config.originals)
        watchdog.set_graceful_timeout(config.task_shutdown_graceful_timeout_ms / 1000)

        from rest.rest_server import RestServer
        from worker.standalone.herder import StandaloneHerder

        server = RestServer.from_config(config)
        try:
            herder = StandaloneHerder(config, worker_id=server.worker_id)
        except BaseException:
            server.stop()
            raise
    except ConnectError as e:
        log.error("The worker cannot start: %s", mask.mask(e.message))
        return EXIT_STARTUP
    try:
        try:
            herder.start()
        except ConnectError as e:
            log.error("The worker cannot start: %s", mask.mask(e.message))
            return EXIT_STARTUP
        server.start(herder)
        log.info("Kafka Connect worker initialized; REST API available after %.2f s", time.monotonic() - started_at)
        code = _start_connectors(herder, connector_files, stop)
        if code == 0:
            herder.started()
            log.info("Kafka Connect started")
            freeze_gc()
            stop.wait()
    finally:
        watchdog.start()
        _shut_down(herder, server, config.task_shutdown_graceful_timeout_ms / 1000)
    return code


def _start_connectors(herder: StandaloneHerder, files: Sequence[str], stop: threading.Event) -> int:
    from connect.config.connector_file import read_connector_file
    from worker.model import Origin

    for file in files:
        if stop.is_set():
            return 0
        try:
            connector = read_connector_file(file)
            state = _parse_target_state(connector.initial_state)
            herder.put_connector(connector.name, connector.config, replace=False, target_state=state, origin=Origin.COMMAND_LINE)
            log.info("Created connector %s", connector.name)
        except ConnectError as e:
            log.error("Failed to create the connector of %s: %s", file, e.message)
            log.error(
                "Stopping after connector error: correct %s, or start the worker without it and create the connector later, "
                "over REST or with sluice apply",
                file,
            )
            return EXIT_CONNECTOR
    return 0


def _parse_target_state(initial_state: str | None) -> TargetState | None:
    from worker.model import TargetState

    return None if initial_state is None else TargetState("STARTED" if initial_state == "RUNNING" else initial_state)


def _shut_down(herder: StandaloneHerder, server: RestServer, graceful_s: float) -> None:
    log.info("Kafka Connect stopping")
    server.stop(REST_STOP_S)
    herder.close(graceful_s + 1.0)
    log.info("Kafka Connect stopped")


if __name__ == "__main__":
    main()
