"""Progress of long work: bars on terminals, lines at long intervals elsewhere, and stdout left alone."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from connect.testing import ManualClock
from sluice.cli import progress as module
from sluice.cli.progress import progress, waiting
from sluice.cli.topic import _reported


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Replaces stderr. Not a fixture: pytest replaces it again before it calls the test."""
    found = Terminal()
    monkeypatch.setattr(sys, "stderr", found)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return found


def _work(report: Callable[[int, int | None, str], None]) -> None:
    for done in range(5):
        report(done, 4, f"[item] {done}")


def test_bar_shows_title_amount_and_item_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress("reading [x]") as report:
        _work(report)
    text = terminal.getvalue()
    assert "reading [x]" in text
    assert "4/4" in text
    assert "[item] 4" in text


def test_bar_shows_bytes_of_a_file_and_an_unknown_total(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress("writing", in_bytes=True) as report:
        assert list(_reported([b"a" * 1_000_000] * 2, 2_000_000, report)) == [b"a" * 1_000_000] * 2
    assert "2.0/2.0 MB" in terminal.getvalue()
    with progress("records") as report:
        report(7, None, "")
    assert "7/?" in terminal.getvalue()


def test_spinner_shows_that_work_continues_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with waiting("Preparing"):
        pass
    assert "Preparing" in terminal.getvalue()


@pytest.mark.parametrize("title", ["a bar", "a spinner"])
def test_stdout_that_is_no_terminal_is_left_alone(monkeypatch: pytest.MonkeyPatch, title: str) -> None:
    terminal = _terminal(monkeypatch)
    stdout = io.StringIO()
    monkeypatch.setattr(sys, "stdout", stdout)
    if title == "a bar":
        with progress(title) as report:
            report(1, 2, "")
            print('{"data": 1}')
    else:
        with waiting(title):
            print('{"data": 1}')
    assert stdout.getvalue() == '{"data": 1}\n'
    assert "data" not in terminal.getvalue()


def test_nothing_is_shown_before_the_first_report(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _terminal(monkeypatch)
    with progress("idle"):
        pass
    assert "idle" not in terminal.getvalue()


@pytest.mark.parametrize("variable", [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_no_escape_codes_without_color(monkeypatch: pytest.MonkeyPatch, variable: tuple[str, str]) -> None:
    terminal = _terminal(monkeypatch)
    monkeypatch.setenv(*variable)
    clock = ManualClock()
    with progress("reading", clock=clock.monotonic) as report, waiting("preparing"):
        report(1, 4, "")
        clock.advance(11)
        report(2, 4, "")
    assert terminal.getvalue() == "reading: 2 of 4 (50%)\n"


def test_lines_come_at_long_intervals_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    clock = ManualClock()
    with progress("records of t", clock=clock.monotonic) as report:
        for second in range(25):
            report(second * 1000, None, "")
            clock.advance(1)
    with progress("writing", in_bytes=True, clock=clock.monotonic) as report:
        clock.advance(10)
        report(1_500_000, 3_000_000, "")
    shown = capsys.readouterr()
    assert shown.err.splitlines() == ["records of t: 10,000", "records of t: 20,000", "writing: 1.5 MB of 3.0 MB (50%)"]
    assert shown.out == ""


def test_waiting_is_reported_in_lines_until_it_ends(capsys: pytest.CaptureFixture[str]) -> None:
    class Ended:
        """The end comes after two intervals."""

        def __init__(self) -> None:
            self.waits: list[float] = []

        def wait(self, timeout: float) -> bool:
            self.waits.append(timeout)
            return len(self.waits) > 2

    ended = Ended()
    module._report_waiting("preparing", ended)  # type: ignore[arg-type]
    assert ended.waits == [10.0] * 3
    assert capsys.readouterr().err.splitlines() == ["preparing: 0 s"] * 2
