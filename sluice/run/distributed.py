"""``connect-distributed WORKER.properties``: Apache's command line.

Exit codes as there: 1 wrong usage, 2 the worker cannot start, 3 the herder failed later (a topic of the cluster cannot be used).
One of our own: 4 it was asked to end, and something kept it from that.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from typing import NoReturn

from connect.errors import ConfigError, ConnectError
from sluice.run.process import (
    EXIT_CONNECTOR,
    EXIT_STARTUP,
    EXIT_USAGE,
    REST_STOP_S,
    end_with,
    freeze_what_stays,
    set_up_collector,
    stop_on_signals,
)
from sluice.run.shutdown_watchdog import LastResort

log = logging.getLogger("sluice.run.distributed")

USAGE = "Usage: connect-distributed worker.properties"


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Runs a worker until SIGTERM or SIGINT, and ends the process with the exit code."""
    end_with(lambda: run(sys.argv[1:] if argv is None else argv))


def run(argv: Sequence[str]) -> int:
    """The same, returning the exit code. Call it in the main thread, for it takes over the signals."""
    if len(argv) != 1 or argv[0] in ("--help", "-h"):
        print(USAGE, file=sys.stderr)
        return EXIT_USAGE
    began = time.monotonic()
    stop, last_resort = threading.Event(), LastResort()
    stop_on_signals(stop, last_resort)
    set_up_collector()
    return _run(argv[0], stop, last_resort, began)


def _run(worker_file: str, stop: threading.Event, last_resort: LastResort, began: float) -> int:
    from worker.config.secrets import SecretMask
    from worker.observability.log_setup import set_up_logging

    mask = SecretMask()
    set_up_logging(mask)
    failures: list[ConnectError] = []

    def on_fatal(error: ConnectError) -> None:
        failures.append(error)
        stop.set()

    try:
        from connect.config.properties import read_properties
        from worker.config.worker_config import WorkerConfig

        props = dict(read_properties(worker_file))
        mask.add(props)
        config = WorkerConfig.for_cluster(props, mask)
        last_resort.allow(config.task_shutdown_graceful_timeout_ms / 1000)

        from rest.forwarding.leader_client import RestPeers
        from rest.forwarding.worker_client import Outgoing
        from rest.server.server import RestServer
        from worker.distributed.bootstrap import assemble
        from worker.distributed.herder import DistributedHerder

        server = RestServer.of_worker(config)
        try:
            peers = RestPeers(Outgoing.of_worker(config))
            parts = assemble(config, worker_id=server.worker_id, url=server.url, leader_client=peers, on_fatal=on_fatal)
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
        log.info("Kafka Connect worker initialized; REST answers after %.2f s", time.monotonic() - began)
        freeze_what_stays()
        stop.wait()
    finally:
        last_resort.begin()
        log.info("Kafka Connect stopping")
        server.stop(REST_STOP_S)
        herder.close(config.task_shutdown_graceful_timeout_ms / 1000 + 1.0)
        log.info("Kafka Connect stopped")
    for error in failures:
        log.error("The worker ends: %s", mask.mask(error.message))
    return exit_code(failures)


def exit_code(failures: Sequence[ConnectError]) -> int:
    """What a worker ends with that could not go on for these reasons."""
    from worker.config.distributed_config import STORAGE_PREFIXES

    def is_startup(error: ConnectError) -> bool:
        # A converter that is not there, for instance: found in an executor, when REST answers already. What is wrong with the
        # cluster's topics names a key of theirs.
        return isinstance(error, ConfigError) and error.key is not None and not error.key.startswith(STORAGE_PREFIXES)

    if not failures:
        return 0
    return EXIT_STARTUP if all(map(is_startup, failures)) else EXIT_CONNECTOR


if __name__ == "__main__":
    main()
