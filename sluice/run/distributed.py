"""``connect-distributed WORKER.properties``: Apache's command line.

Apache's exit codes: 1 invalid usage, 2 the worker cannot start, 3 the herder failed later (an internal topic is unusable). Sluice
adds 4: shutdown hung.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

from connect.errors import ConfigError, ConnectError
from connect.main_process import exit_with, freeze_gc, tune_gc
from sluice.run.process import (
    EXIT_CONNECTOR,
    EXIT_STARTUP,
    EXIT_USAGE,
    REST_STOP_S,
    stop_on_signals,
)
from sluice.run.shutdown_watchdog import ShutdownWatchdog

log = logging.getLogger("sluice.run.distributed")

USAGE = "Usage: connect-distributed worker.properties"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a worker until SIGTERM or SIGINT, then ends the process with the exit code."""
    exit_with(lambda: run(sys.argv[1:] if argv is None else argv), EXIT_STARTUP)


def run(argv: Sequence[str]) -> int:
    """Runs a worker and returns the exit code. Call it in the main thread, since it installs signal handlers."""
    if len(argv) != 1 or argv[0] in ("--help", "-h"):
        print(USAGE, file=sys.stderr)
        return EXIT_USAGE
    started_at = time.monotonic()
    stop, watchdog = threading.Event(), ShutdownWatchdog()
    stop_on_signals(stop, watchdog)
    tune_gc()
    return _run(argv[0], stop, watchdog, started_at)


def _run(worker_file: str, stop: threading.Event, watchdog: ShutdownWatchdog, started_at: float) -> int:
    from worker.config.secrets import SecretMask
    from worker.observability.log_setup import follow_log_format, set_up_logging
    from worker.observability.recent_logs import keep_recent_logs

    mask = SecretMask()
    set_up_logging(mask)
    keep_recent_logs(mask)
    failures: list[ConnectError] = []

    def on_fatal(error: ConnectError) -> None:
        failures.append(error)
        stop.set()

    try:
        from connect.config.properties import read_properties
        from worker.config.worker_config import WorkerConfig

        props = dict(read_properties(worker_file))
        mask.add(props)
        follow_log_format(mask, props)
        config = WorkerConfig.for_cluster(props, mask)
        follow_log_format(mask, config.originals)
        watchdog.set_graceful_timeout(config.task_shutdown_graceful_timeout_ms / 1000)

        from rest.forwarding.leader_client import RestLeaderClient
        from rest.forwarding.worker_client import WorkerClient
        from rest.rest_server import RestServer
        from worker.distributed.bootstrap import assemble
        from worker.distributed.herder import DistributedHerder

        server = RestServer.from_config(config)
        try:
            leader_client = RestLeaderClient(WorkerClient.from_config(config))
            parts = assemble(config, worker_id=server.worker_id, url=server.url, leader_client=leader_client, on_fatal=on_fatal)
            herder = DistributedHerder(parts)
        except BaseException:
            server.stop()
            raise
    except ConnectError as e:
        log.error("The worker cannot start: %s", mask.mask(e.message))
        return EXIT_STARTUP
    try:
        server.start(herder)
        herder.start()
        log.info("Kafka Connect worker initialized; REST API available after %.2f s", time.monotonic() - started_at)
        freeze_gc()
        stop.wait()
    finally:
        watchdog.start()
        log.info("Kafka Connect stopping")
        server.stop(REST_STOP_S)
        herder.close(config.task_shutdown_graceful_timeout_ms / 1000 + 1.0)
        log.info("Kafka Connect stopped")
    for error in failures:
        log.error("The worker stopped: %s", mask.mask(error.message))
    return exit_code(failures)


def exit_code(failures: Sequence[ConnectError]) -> int:
    """Returns the exit code of a worker that stopped because of these errors."""
    from worker.config.distributed_config import STORAGE_PREFIXES

    def is_startup(error: ConnectError) -> bool:
        # For example a missing converter, which executors find after the REST API has started. Errors of internal topics name one
        # of the topics' keys.
        return isinstance(error, ConfigError) and error.key is not None and not error.key.startswith(STORAGE_PREFIXES)

    if not failures:
        return 0
    return EXIT_STARTUP if all(map(is_startup, failures)) else EXIT_CONNECTOR


if __name__ == "__main__":
    main()
