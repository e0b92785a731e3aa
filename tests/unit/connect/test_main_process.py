"""Programs stop on signals, and end with an exit code whatever happens."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.waiting import WAIT_S

PROGRAM = """
import threading
from connect.main_process import StopSignals, exit_with

def run():
    stop = StopSignals()
    assert not stop.wait(0.01)
    print("ready", flush=True)
    rounds = 0
    while not stop.wait(0.001):
        rounds += 1
    assert stop.wait(0)
    threading.Thread(target=threading.Event().wait).start()
    return 7

exit_with(run, 3)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_program_stops_on_the_first_of_many_signals(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        for _ in range(20):
            child.send_signal(number)
        try:
            assert child.wait(WAIT_S) == 7
        finally:
            child.kill()


def test_unexpected_error_is_logged_and_ends_the_program() -> None:
    program = "from connect.main_process import exit_with\nexit_with(lambda: 1 // 0, 3)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=WAIT_S, check=False)
    assert done.returncode == 3
    assert b"ZeroDivisionError" in done.stderr
