"""Shared by both worker commands: signals, process exit, garbage collector settings."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import socket
import threading
from types import FrameType

from sluice.run.shutdown_watchdog import ShutdownWatchdog

log = logging.getLogger(__name__)

EXIT_USAGE, EXIT_STARTUP, EXIT_CONNECTOR = 1, 2, 3
"""Apache's exit codes: invalid usage, the worker cannot start, a connector of the command line cannot be created (or the herder
failed)."""
REST_STOP_S = 2.0


def stop_on_signals(stop: threading.Event, watchdog: ShutdownWatchdog) -> None:
    """Makes SIGTERM, SIGINT, and SIGHUP set the event and start ``watchdog``, and SIGQUIT dump all thread stacks to stderr.

    As in a JVM, SIGHUP stays ignored where it is ignored, as under nohup. Call it in the main thread.
    """
    # A Python handler would not suffice. It runs only when the main thread executes bytecode: never, while that waits for a lock
    # and the kernel delivered the signal to another thread. It also interrupts arbitrary code, including other handlers, so it
    # must not take locks such as an event's. The byte in the socket arrives immediately.
    received, wakeup = socket.socketpair()
    wakeup.setblocking(False)
    signal.set_wakeup_fd(wakeup.detach(), warn_on_full_buffer=False)

    def watch_signals() -> None:
        while number := received.recv(1):
            if stop.is_set() and number[0] == signal.SIGINT:
                os._exit(130)  # requested twice
            if number[0] in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                watchdog.start()
                stop.set()

    def on_signal(number: int, frame: FrameType | None) -> None:
        """Does nothing; only prevents the signal from ending the process."""

    threading.Thread(target=watch_signals, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, on_signal)
    faulthandler.register(signal.SIGQUIT)
