"""What the two commands that run a worker share: signals, the end of the process, Python's collector."""

from __future__ import annotations

import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from sluice.run.shutdown_watchdog import LastResort

log = logging.getLogger(__name__)

EXIT_USAGE, EXIT_STARTUP, EXIT_CONNECTOR = 1, 2, 3
"""As Apache's commands: wrong usage, the worker cannot start, a connector of the command line cannot be created (or the herder
failed)."""
REST_STOP_S = 2.0


def end_with(run: Callable[[], int]) -> NoReturn:
    """Ends the process with the exit code that ``run`` returns, or with 2 after an error that nobody thought of. At once: threads
    that were abandoned must not keep it."""
    try:
        code = run()
    except BaseException:
        log.exception("Stopping due to error")
        code = EXIT_STARTUP
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def stop_on_signals(stop: threading.Event, last_resort: LastResort) -> None:
    """Sets the event at SIGTERM, SIGINT and SIGHUP, from when on ``last_resort`` counts; SIGQUIT prints the stacks of all threads
    on stderr. All as in a JVM, which leaves SIGHUP alone too where it is ignored, as under nohup. For the main thread."""
    # A handler in Python would not do. It runs when the main thread gets to it: never, when that waits for a lock and the kernel
    # gave the signal to another thread, as it may when one begins or changes its mask. And in the middle of whatever that does,
    # another handler included: it must take no lock that may be held there, as an event's. The byte in the socket comes at once.
    came, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.detach(), warn_on_full_buffer=False)

    def pass_on() -> None:
        while number := came.recv(1):
            if stop.is_set() and number[0] == signal.SIGINT:
                os._exit(130)  # asked twice
            if number[0] in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                last_resort.begin()
                stop.set()

    def on_signal(number: int, frame: FrameType | None) -> None:
        """Only so that the signal does not end the process."""

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, on_signal)
    faulthandler.register(signal.SIGQUIT)


def set_up_collector() -> None:
    """Records are made and dropped by the million, and hardly ever in cycles: with Python's defaults the collector would look
    through them all the time."""
    gc.set_threshold(50_000, 20, 100)


def freeze_what_stays() -> None:
    """What a worker is made of stays: the collector need not look through it again and again."""
    gc.freeze()
