"""A page that is wrong fails its test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import tutorial
from tests.support.tutorial import TutorialRun

Run = Callable[..., None]

TERMINAL = 'python -c \'import signal; signal.signal(signal.SIGINT, {}); open("up", "w"); signal.pause(); signal.pause()\''
WAIT = ("bash", "until test -e up; do sleep 0.1; done")


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a page of these blocks."""

    def run(*blocks: tuple[str, str]) -> None:
        page = tmp_path / "page.md"
        page.write_text("\n".join(f"```{info}\n{text}\n```\n" for info, text in blocks), encoding="utf-8")
        with TutorialRun(page, tmp_path, {}, {}) as one:
            one.run()

    return run


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("3", "3"),
        ("a   3", "a 3"),
        ("first\nother\nlast", "first\nlast"),
        ("archive  1  RUNNING", "archive ...RUNNING"),
        ('["a"]{"state":"RUNNING"}', '["a"]\n"state":"RUNNING"'),
    ],
)
def test_output_that_was_printed_is_found(run: Run, printed: str, expected: str) -> None:
    run(("bash", f"echo '{printed}'"), ("text output", expected))


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("13 of 1000", "3"),
        ("3 of 1000", "3"),
        ("11 passed", "1 passed"),
        ("2 passed in 10", "2 passed in 1"),
        ("last\nfirst", "first\nlast"),
        ("archive FAILED\norders RUNNING", "archive ...RUNNING"),
    ],
)
def test_other_output_is_not_taken_for_the_expected_one(run: Run, printed: str, expected: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:\d+: expected"):
        run(("bash", f"echo '{printed}'"), ("text output", expected))


@pytest.mark.parametrize("info", ["text ouput", "bash fail=2", "bash output", "python setup"])
def test_unknown_role_is_refused(run: Run, info: str) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:5: unknown role '\w+' of a block of \w+"):
        run(("bash", "true"), (info, "true"))


def test_commands_do_not_know_that_a_test_runs_them(run: Run) -> None:
    run(("bash", "env | grep -c ^PYTEST_ || true"), ("text output", "0"))


@pytest.mark.parametrize("stop", [[("bash stop=one", "^C")], []])
def test_terminal_whose_command_ends_after_ctrl_c_is_fine(run: Run, stop: list[tuple[str, str]]) -> None:
    run(("bash terminal=one", TERMINAL.format("lambda *_: exit(0)")), WAIT, *stop)


@pytest.mark.parametrize("stop", [[("bash stop=one", "^C")], []])
@pytest.mark.parametrize(
    ("handler", "problem"),
    [
        ("signal.SIG_IGN", "one ended with -9 after Ctrl-C"),
        ("lambda *_: exit(3)", "one ended with 3 after Ctrl-C"),
    ],
)
def test_terminal_whose_command_does_not_end_well_is_refused(
    run: Run, monkeypatch: pytest.MonkeyPatch, handler: str, problem: str, stop: list[tuple[str, str]]
) -> None:
    if "IGN" in handler:
        monkeypatch.setattr(tutorial, "WAIT_S", 1.0)
    with pytest.raises(AssertionError, match=problem):
        run(("bash terminal=one", TERMINAL.format(handler)), WAIT, *stop)


def test_terminal_whose_command_has_ended_before_is_refused(run: Run) -> None:
    ended = "until grep -q 'State:.Z' /proc/$(cat pid)/status; do sleep 0.1; done"
    with pytest.raises(AssertionError, match="one ended by itself with 0"):
        run(("bash terminal=one", "sh -c 'echo $$ > pid'"), ("bash", ended), ("bash stop=one", "^C"))
