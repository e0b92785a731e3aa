"""``connect-standalone WORKER.properties [CONNECTOR.properties|.json ...]``: Apache's command line.

Exit codes as there: 1 wrong usage, 2 the worker cannot start, 3 a connector that was named cannot be created.
"""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from connect.errors import ConnectError

if TYPE_CHECKING:
    from rest.server import RestServer
    from worker.herder import TargetState
    from worker.standalone import StandaloneHerder

log = logging.getLogger("sluice.standalone")

USAGE = "Usage: connect-standalone worker.properties [connector1.properties connector2.json ...]"
EXIT_USAGE, EXIT_STARTUP, EXIT_CONNECTOR = 1, 2, 3
_REST_STOP_S = 2.0


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a worker until SIGTERM or SIGINT, and ends the process with the exit code."""
    code = run(sys.argv[1:] if argv is None else argv)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # At once: the thread of a plugin that was abandoned must not keep the process.
    os._exit(code)


def run(argv: Sequence[str]) -> int:
    """The same, returning the exit code. Call it in the main thread, for it takes over the signals."""
    if not argv or "--help" in argv or "-h" in argv:
        print(USAGE, file=sys.stderr)
        return EXIT_USAGE
    began = time.monotonic()
    stop = threading.Event()
    _stop_on_signals(stop)
    # Records are made and dropped by the million, and hardly ever in cycles: with Python's defaults the collector would look
    # through them all the time.
    gc.set_threshold(50_000, 20, 100)
    return _run(argv[0], argv[1:], stop, began)


def _run(worker_file: str, connector_files: Sequence[str], stop: threading.Event, began: float) -> int:
    from worker.logs import set_up_logging
    from worker.secrets import SecretMask

    mask = SecretMask()
    set_up_logging(mask)
    try:
        from connect.config.properties import read_properties
        from worker.config import WorkerConfig

        props = dict(read_properties(worker_file))
        mask.add(props)
        config = WorkerConfig.standalone(props, mask)

        from rest.listeners import ListenSettings
        from rest.server import RestServer
        from worker.standalone import StandaloneHerder

        settings = ListenSettings(config.listeners, config.rest_advertised_host_name, config.rest_advertised_port)
        server = RestServer.bind(settings)
        try:
            herder = StandaloneHerder(config, worker_id=server.worker_id)
        except BaseException:
            server.stop()
            raise
    except ConnectError as e:
        log.error("The worker cannot start: %s", mask.mask(e.message))
        return EXIT_STARTUP
    try:
        herder.start()
        server.start(herder)
        log.info("Kafka Connect worker initialized; REST answers after %.2f s", time.monotonic() - began)
        code = _start_connectors(herder, connector_files, stop)
        if code == 0:
            herder.started()
            log.info("Kafka Connect started")
            # What a worker is made of stays: the collector need not look through it again and again.
            gc.freeze()
            stop.wait()
    finally:
        _shut_down(herder, server, config.task_shutdown_graceful_timeout_ms / 1000)
    return code


def _start_connectors(herder: StandaloneHerder, files: Sequence[str], stop: threading.Event) -> int:
    from connect.config.connector_file import read_connector_file

    for file in files:
        if stop.is_set():
            return 0
        try:
            connector = read_connector_file(file)
            herder.put_connector(connector.name, connector.config, replace=False, target_state=_target(connector.initial_state))
            log.info("Created connector %s", connector.name)
        except ConnectError as e:
            log.error("Failed to create the connector of %s: %s", file, e.message)
            log.error("Stopping after connector error")
            return EXIT_CONNECTOR
    return 0


def _target(initial_state: str | None) -> TargetState | None:
    from worker.herder import TargetState

    return None if initial_state is None else TargetState("STARTED" if initial_state == "RUNNING" else initial_state)


def _shut_down(herder: StandaloneHerder, server: RestServer, graceful_s: float) -> None:
    log.info("Kafka Connect stopping")
    server.stop(_REST_STOP_S)
    herder.close(graceful_s + 1.0)
    log.info("Kafka Connect stopped")


def _stop_on_signals(stop: threading.Event) -> None:
    def on_signal(number: int, frame: FrameType | None) -> None:
        if stop.is_set() and number == signal.SIGINT:
            os._exit(130)  # asked twice
        stop.set()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)


if __name__ == "__main__":
    main()
