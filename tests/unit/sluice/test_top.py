"""The screen of sluice top: what fits, what keys do, and a worker that goes away."""

from __future__ import annotations

import pty

import pytest

from sluice.cli.keys import Keys, name_of, split_keys
from sluice.cli.top import TopView, _short_number
from sluice.online.rates import ConnectorRates
from tests.support.waiting import WAIT_S

LONG = "customers-of-the-northern-region-orders-and-invoices-replicated-to-the-lake"


def _found(count: int, failed: int = 0) -> list[ConnectorRates]:
    return [
        ConnectorRates(f"c{at:03}", "sink", "RUNNING", 1, 1, ("0",) if at < failed else (), 12_345.6, 987_654_321.0, 1_234_567)
        for at in range(count)
    ]


def _lines(view: TopView, width: int = 80) -> list[str]:
    return view.frame(width).plain.split("\n")


def test_screen_without_connectors_says_so() -> None:
    view = TopView("http://w:8083")
    view.update([], 20)
    assert _lines(view)[0] == "0 connectors, 0 with failures  http://w:8083"


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_each_connector_has_one_line_that_fits(width: int) -> None:
    view = TopView("http://w:8083")
    many = tuple(str(number) for number in range(40))
    view.update([ConnectorRates(LONG, "source", "RESTARTING", 960, 1000, many, 9e9, 9e12, 10**9), *_found(2)], 20)
    lines = _lines(view, width)
    assert len(lines) == 2 + 3 + 1
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("width", "has_type"), [(80, False), (120, True)])
def test_type_is_left_out_before_figures_are(width: int, has_type: bool) -> None:
    view = TopView("http://w:8083")
    view.update([ConnectorRates(LONG[:40], "source", "RUNNING", 2, 2, (), 12_345.6, 987_654_321.0, 1_234_567)], 20)
    header, row = _lines(view, width)[1:3]
    assert ("type" in header, "source" in row) == (has_type, has_type)
    assert row.split()[-3:] == ["12.3k", "987.7M", "1.2M"]


def test_keys_scroll_within_the_list_and_filter_failures() -> None:
    view = TopView("http://w:8083")
    view.update(_found(300, failed=3), 20)
    assert _lines(view)[2].startswith("c000")
    assert "280 below" in _lines(view)[0]
    for key, first in (("down", 1), ("page down", 21), ("up", 20), ("start", 0), ("up", 0)):
        assert view.press(key)
        assert view.first == first
    for _ in range(20):
        view.press("page down")
    assert _lines(view)[-2].startswith("c299")
    view.press("f")
    assert [line[:4] for line in _lines(view)[2:-1]] == ["c000", "c001", "c002"]
    assert not view.press("q")


def test_figures_are_read_of_the_rows_on_the_screen() -> None:
    view, asked = TopView("http://w:8083"), []

    def read(first: int, lines: int) -> list[ConnectorRates]:
        asked.append((first, lines))
        return _found(300, failed=100)

    view.refresh(read, 20)
    view.press("f")
    view.press("page down")
    view.refresh(read, 20)
    assert asked == [(0, 20), (20, 20)]
    assert _lines(view)[2].startswith("c020")


def test_list_that_shrinks_is_scrolled_back() -> None:
    view = TopView("http://w:8083")
    view.update(_found(300), 20)
    for _ in range(20):
        view.press("page down")
    view.update(_found(5), 20)
    assert view.first == 0
    assert len(_lines(view)) == 2 + 5 + 1


def test_problem_replaces_the_head_until_the_worker_answers() -> None:
    view = TopView("http://w:8083")
    view.update(_found(2), 20)
    view.problem = "No worker responds at http://w:8083"
    assert _lines(view)[0] == "No worker responds at http://w:8083"
    assert _lines(view)[2].startswith("c000")
    view.update(_found(2), 20)
    assert _lines(view)[0].startswith("2 connectors")


def test_figures_are_short() -> None:
    shown = [_short_number(number) for number in (None, 0, 999, 999.96, 1000, 999_960, 1e6, 123.4e6, 5e9, 7e12, 7e14)]
    assert shown == ["-", "0", "999", "1.0k", "1.0k", "1.0M", "1.0M", "123.4M", "5.0G", "7.0T", "700.0T"]


def test_keys_that_arrive_together_are_split() -> None:
    assert split_keys("q") == (["q"], "")
    assert split_keys("jj\x1b[B\x1b[6~\x1bOAü f") == (["down", "down", "down", "page down", "up", "ü", "page down", "f"], "")
    assert split_keys("j\x1b[6") == (["down"], "\x1b[6")
    assert split_keys("\x1b") == ([], "\x1b")
    assert split_keys("\x1b[1;5Cq") == (["\x1b[1;5C", "q"], "")


def test_each_key_of_pasted_text_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = pty.openpty()
    with open(theirs, encoding="utf-8") as terminal, open(ours, "wb", buffering=0) as keyboard, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", terminal)
        with Keys() as keys:
            for text in ("j" * 100, "\x1b[6~ü", "\x1b"):
                keyboard.write(text.encode())
            found = [keys.wait(WAIT_S) for _ in range(103)]
            assert keys.wait(0) is None
    assert found == [*["down"] * 100, "page down", "ü", "\x1b"]


def test_sequences_of_terminals_are_keys() -> None:
    assert [name_of(one) for one in ("\x1b[A", "\x1bOB", "\x1b[6~", " ", "q")] == ["up", "down", "page down", "page down", "q"]
