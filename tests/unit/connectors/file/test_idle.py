"""Idle file sources: they sleep until there are new lines or until they are stopped."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from connect.record import SourceRecord
from connect.testing import ManualClock, SourceHarness
from connectors.file import FileStreamSourceTask
from connectors.file import source as file_source
from connectors.file import watch as file_watch
from connectors.file.source import IDLE_TIMEOUT_S, MAX_POLL_INTERVAL_S, MIN_POLL_INTERVAL_S
from connectors.file.watch import SHARED_WATCH, WATCH_INTERVAL_S, FileState, FileWatch, SharedFileWatch, read_file_state
from tests.support.waiting import WAIT_S, call_with_timeout, eventually


class Watched:
    """A source task in a poll of its own thread that has found nothing for so long that its file is watched."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.task = FileStreamSourceTask()
        self.harness = SourceHarness(self.task, {"file": str(file), "topic": "t"}).start()
        if file.exists():
            self.harness.poll_records(len(file.read_bytes().splitlines()))
        # As after some polls without a line.
        self.task._poll_interval_s = MAX_POLL_INTERVAL_S
        self.found: list[SourceRecord] = []
        self._thread = threading.Thread(target=self._poll, name="polling")
        self._thread.start()
        eventually(lambda: self._is_watched() or not self._thread.is_alive(), "the file is watched")

    def _poll(self) -> None:
        self.found = self.harness.poll()

    def _is_watched(self) -> bool:
        return SHARED_WATCH._watch is not None and bool(SHARED_WATCH._watch._waiting)

    def join(self) -> None:
        """Waits for the poll's end."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()

    def values(self) -> list[str]:
        return [record.value for record in self.found]


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bytes | None], Watched]]:
    """Their polls wait for so long that only the watch, or a stop, can end them in time."""
    monkeypatch.setattr(file_source, "IDLE_TIMEOUT_S", 10 * WAIT_S)
    made: list[Watched] = []

    def make(content: bytes | None) -> Watched:
        file = tmp_path / "in"
        if content is not None:
            file.write_bytes(content)
        made.append(Watched(file))
        return made[-1]

    yield make
    for one in made:
        one.harness.task.stop()
        one.join()
        one.harness.stop()
    eventually(lambda: not any(thread.name == "file-watch" for thread in threading.enumerate()), "the watch ends")


Watch = Callable[[bytes | None], Watched]


class Timed(threading.Event):
    """What a source task waits for, as its own event and as the watch of its file; its clock advances by the waits."""

    def __init__(self, harness: SourceHarness) -> None:
        super().__init__()
        self.harness = harness
        self.clock = ManualClock()
        self.waits_s: list[float] = []

    def wait(self, *arguments: Any) -> bool:
        """The last argument is the timeout."""
        self.waits_s.append(arguments[-1])
        self.clock.advance(arguments[-1])
        return False


@pytest.fixture
def timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Timed]:
    """A task that has read all of its file."""
    task = FileStreamSourceTask()
    with SourceHarness(task, {"file": str(tmp_path / "in"), "topic": "t"}) as harness:
        timed = Timed(harness)
        monkeypatch.setattr(file_source, "time", SimpleNamespace(monotonic=timed.clock.monotonic, time_ns=time.time_ns))
        monkeypatch.setattr(task, "_wake", timed)
        monkeypatch.setattr(task, "_last_line_s", 0.0)
        monkeypatch.setattr(SHARED_WATCH, "acquire", lambda: timed)
        monkeypatch.setattr(SHARED_WATCH, "release", lambda: None)
        (tmp_path / "in").write_bytes(b"old\n")
        harness.poll_records(1)
        yield timed


def test_a_line_is_read_soon_after_a_quiet_period(watched: Watch) -> None:
    assert WATCH_INTERVAL_S < IDLE_TIMEOUT_S / 2
    one = watched(b"old\n")
    with one.file.open("ab") as more:
        more.write(b"new\n")
    one.join()
    assert one.values() == ["new"]
    assert one.task._poll_interval_s == MIN_POLL_INTERVAL_S  # the next is looked for at once


def test_a_new_file_is_detected_soon(watched: Watch) -> None:
    one = watched(None)
    one.file.write_bytes(b"first\n")
    one.join()
    assert one.values() == ["first"]


def test_a_replacement_of_the_same_size_is_read_from_its_start(watched: Watch, tmp_path: Path) -> None:
    one = watched(b"one\n")
    (tmp_path / "other").write_bytes(b"two\n")
    os.replace(tmp_path / "other", one.file)
    one.join()
    assert one.values() == ["two"]


def test_a_truncated_file_is_read_again(watched: Watch) -> None:
    one = watched(b"one\ntwo\n")
    one.file.write_bytes(b"1\n")
    one.join()
    assert one.values() == ["1"]


def test_an_incomplete_line_is_returned_after_its_end(watched: Watch) -> None:
    one = watched(b"old\n")
    with one.file.open("ab") as more:
        more.write(b"ne")
        more.flush()
        eventually(lambda: one.task._splitter.pending_bytes == 2, "the beginning is read")
        more.write(b"w\n")
    one.join()
    assert one.values() == ["new"]


def test_a_poll_without_new_lines_ends_after_a_second(timed: Timed) -> None:
    assert timed.harness.poll() == []
    assert timed.waits_s[-1] > MAX_POLL_INTERVAL_S  # it ended with a wait for the watch
    assert sum(timed.waits_s) == pytest.approx(IDLE_TIMEOUT_S) == 1.0


def test_polls_of_a_quiet_file_last_longer(timed: Timed) -> None:
    timed.clock.advance(file_source.QUIET_AFTER_S)
    assert timed.harness.poll() == []
    assert sum(timed.waits_s) == pytest.approx(file_source.QUIET_IDLE_TIMEOUT_S)


def test_stop_wakes_a_task_whose_file_is_watched(watched: Watch) -> None:
    one = watched(b"old\n")
    one.harness.task.stop()
    one.join()
    assert one.harness.poll() == []


def test_the_poll_interval_grows_while_a_file_is_quiet(timed: Timed) -> None:
    timed.harness.poll()
    assert timed.waits_s[:6] == [MIN_POLL_INTERVAL_S * 2**n for n in range(6)]


def test_the_file_state_reveals_changes(tmp_path: Path) -> None:
    file = tmp_path / "f"
    assert read_file_state(str(file)) is None
    file.write_text("a")
    first = read_file_state(str(file))
    assert first == read_file_state(str(file))
    file.write_text("ab")
    second = read_file_state(str(file))
    (tmp_path / "g").write_text("ab")
    assert len({first, second, read_file_state(str(tmp_path / "g"))}) == 3


def test_a_hanging_check_delays_no_task_beyond_its_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    hanging, go_on = threading.Event(), threading.Event()

    def state(path: str) -> FileState:
        hanging.set()
        go_on.wait(120)
        return None

    monkeypatch.setattr(file_watch, "read_file_state", state)
    watch = FileWatch(interval_s=0.001)
    watch.wait("away", None, threading.Event(), 0.05)
    assert hanging.wait(WAIT_S)
    call_with_timeout(lambda: watch.wait("here", None, threading.Event(), 0.05), "a wait beside the look that hangs")
    go_on.set()
    watch.close()


def test_the_last_user_closes_the_watch_and_the_next_gets_a_new_one() -> None:
    made: list[FileWatch] = []

    def make() -> FileWatch:
        made.append(FileWatch())
        return made[-1]

    shared = SharedFileWatch(make)
    assert shared.acquire() is shared.acquire() is made[0]
    shared.release()
    assert made[0]._thread.is_alive()
    shared.release()
    eventually(lambda: not made[0]._thread.is_alive(), "the watch ends")
    assert shared.acquire() is made[1]
    shared.release()
