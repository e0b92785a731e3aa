"""Signals to a worker."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from connect.errors import ConfigError, ConnectError
from sluice.run.distributed import exit_code
from tests.support.waiting import WAIT_S

BEGINS = """
import ctypes, signal, sys, threading, time
from sluice.run.shutdown_watchdog import ShutdownWatchdog
from connect.main_process import exit_with
from sluice.run.process import stop_on_signals

stop, watchdog = threading.Event(), ShutdownWatchdog({more_s})
watchdog.set_graceful_timeout(0.2)
stop_on_signals(stop, watchdog)
"""
WAITS = (
    BEGINS.format(more_s=30)
    + """
print("ready", flush=True)
stop.wait()
"""
)


def test_ignored_sighup_stays_ignored() -> None:
    ignoring = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{BEGINS.format(more_s=30)}"
    asks = "\nprint(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
    done = subprocess.run([sys.executable, "-c", ignoring + asks], capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_signals_stop_the_worker(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        assert child.wait(WAIT_S) == 0


def test_repeated_signals_stop_the_worker() -> None:
    for _ in range(10):
        with subprocess.Popen([sys.executable, "-c", WAITS], stdout=subprocess.PIPE) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            # The second comes while the first is being handled.
            for _ in range(200):
                child.send_signal(signal.SIGTERM)
            try:
                # By the signal itself when it came after the interpreter had put its handlers away.
                assert child.wait(WAIT_S) in (0, -signal.SIGTERM)
            finally:
                child.kill()


def test_signal_delivered_to_another_thread_stops_the_worker() -> None:
    # The kernel may choose any thread, and the main thread's wait goes on then.
    code = (
        BEGINS.format(more_s=30)
        + """
def get_it():
    input()
    main = threading.main_thread().ident
    while sys._current_frames()[main].f_code.co_name != "wait":
        time.sleep(0.01)
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Thread(target=get_it, daemon=True).start()
print("ready", flush=True)
stop.wait()
"""
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.stdin.write(b"now\n")
        child.stdin.flush()
        try:
            assert child.wait(WAIT_S) == 0
        finally:
            child.kill()


@pytest.mark.parametrize(
    ("hangs", "code"),
    [("threading.Event().wait()", 4), ("ctypes.PyDLL(None).sleep(60)", 1)],
    ids=["in_python", "with_pythons_lock"],
)
def test_hanging_shutdown_is_ended_with_thread_stacks(hangs: str, code: int) -> None:
    program = (
        BEGINS.format(more_s=0.3)
        + f"""
def a_part_that_hangs():
    {hangs}

def run():
    print("ready", flush=True)
    stop.wait()
    a_part_that_hangs()
    return 0

exit_with(run, 2)
"""
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGTERM)
        try:
            _, told = child.communicate(timeout=WAIT_S)
        finally:
            child.kill()
    assert child.returncode == code
    assert b"a_part_that_hangs" in told


def test_hanging_shutdown_is_ended_even_if_stderr_is_full() -> None:
    program = (
        BEGINS.format(more_s=0.3)
        + """
import os
os.set_blocking(2, False)
try:
    while os.write(2, b"x" * 4096): pass
except BlockingIOError:
    os.set_blocking(2, True)

def run():
    print("ready", flush=True)
    stop.wait()
    os.write(2, b"nobody reads this")
    return 0

exit_with(run, 2)
"""
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(signal.SIGTERM)
        try:
            assert child.wait(WAIT_S) == 4
        finally:
            child.kill()


def test_unexpected_error_ends_the_worker_despite_running_threads() -> None:
    program = (
        BEGINS.format(more_s=30)
        + """
from concurrent.futures import ThreadPoolExecutor

def run():
    ThreadPoolExecutor().submit(threading.Event().wait)
    raise ValueError("unheard of")

exit_with(run, 2)
"""
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 2
    assert b"ValueError: unheard of" in done.stderr


@pytest.mark.parametrize(
    ("failures", "expected"),
    [
        ([], 0),
        ([ConfigError.invalid("key.converter", "NoSuch")], 2),
        ([ConfigError("Topic 'configs' is required to have 'cleanup.policy=compact'", key="config.storage.topic")], 3),
        ([ConfigError.invalid("key.converter", "NoSuch"), ConnectError("no group")], 3),
    ],
)
def test_exit_code_distinguishes_config_errors_from_cluster_errors(failures: list[ConnectError], expected: int) -> None:
    assert exit_code(failures) == expected
