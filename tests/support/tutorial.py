"""Runs the pages of ``docs/tutorials`` as a reader does: writes their files, runs their commands, and compares the output.

The first word after the language of a fenced block says what to do with it:

========================  ==================================================================================================
``LANG file=NAME``        The block is the content of a file.
``bash``                  Commands that must succeed. Variables that they export apply to later blocks.
``bash fails=N``          Commands that end with exit code N.
``bash terminal=NAME``    One command that keeps running in a terminal of its own.
``bash stop=NAME``        The reader presses Ctrl-C in that terminal, whose command must succeed; the block is only shown.
``bash setup``            Commands that install or start what the test already has. Only their form is checked.
``text output``           What the commands before print, in this order: lines or parts of them that begin and end with a whole
                          word. A number alone is a whole line. ``...`` stands for any text in a line.
``text until``            The same, but the commands may fail and are repeated until they print it.
========================  ==================================================================================================

Other blocks have no role and are illustrations. A comment ``<!-- wait: URL -->`` waits until the URL responds. At the end, the
reader presses Ctrl-C in the terminals that are left.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.waiting import WAIT_S

_BLOCK = re.compile(r"^(?:```(?P<info>[^\n`]*)\n(?P<text>.*?)^```$|<!-- wait: (?P<wait>\S+) -->$)", re.M | re.S)
_EXPORT = re.compile(r"^export .*$", re.M)
_OTHERS_VARIABLES = ("SLUICE_CONNECT", "PYTEST_")


@dataclass(frozen=True, slots=True)
class Block:
    """One step of a tutorial. ``line`` is where it begins in the page."""

    language: str
    role: str
    argument: str
    text: str
    line: int


def read_blocks(page: Path) -> Iterator[Block]:
    """Yields the steps of a page in order."""
    content = page.read_text("utf-8")
    for found in _BLOCK.finditer(content):
        line = content.count("\n", 0, found.start()) + 1
        if found["wait"]:
            yield Block("wait", "", found["wait"], "", line)
            continue
        language, _, rest = found["info"].strip().partition(" ")
        role, _, argument = rest.partition("=")
        yield Block(language, role, argument, found["text"], line)


class TutorialRun:
    """One reader's folder and terminals. A context manager that ends what still runs."""

    def __init__(
        self,
        page: Path,
        folder: Path,
        replacements: Mapping[str, str],
        variables: Mapping[str, str],
        programs: Path | None = None,
    ) -> None:
        """``replacements`` are made in all texts of the page, longest first; ``variables`` are added to the environment. The
        folder ``programs`` comes first in PATH."""
        self.page = page
        self.folder = folder
        self._replacements = dict(sorted(replacements.items(), key=lambda pair: -len(pair[0])))
        self._variables = {
            **{name: value for name, value in os.environ.items() if not name.startswith(_OTHERS_VARIABLES)},
            "PATH": os.pathsep.join(
                [*([str(programs)] if programs else []), str(Path(sys.executable).parent), os.environ["PATH"]]
            ),
            "NO_COLOR": "1",
            "COLUMNS": "160",
            "XDG_STATE_HOME": str(folder / ".state"),
            "XDG_CONFIG_HOME": str(folder / ".config"),
            **variables,
        }
        self._exports: list[str] = []
        self._terminals: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        problems = self._press_ctrl_c(self._terminals)
        assert error is not None or not problems, f"{self.page.name}: {problems}{self._logs()}"

    def run(self) -> None:
        """Runs all steps. An AssertionError names the page, the line, and what the commands printed."""
        last: Block | None = None
        printed = ""
        blocks = list(read_blocks(self.page))
        for position, block in enumerate(blocks):
            text = self._replaced(block.text)
            if block.language == "wait":
                self._wait_for(self._replaced(block.argument), block)
            elif block.role == "file":
                path = self.folder / block.argument
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            elif block.language == "bash" and block.role == "terminal":
                self._open_terminal(block.argument, text)
            elif block.language == "bash" and block.role == "stop":
                self._stop_terminal(block)
            elif block.language == "bash" and block.role in ("", "fails"):
                repeated = position + 1 < len(blocks) and blocks[position + 1].role == "until"
                printed, last = self._execute(text, block, may_fail=repeated), block
            elif block.language == "text" and block.role in ("output", "until"):
                assert last is not None, self._where(block, "no commands before it")
                self._compare(text, printed, block, last)
            else:
                is_known = not block.role or (block.language, block.role) == ("bash", "setup")
                assert is_known, self._where(block, f"unknown role {block.role!r} of a block of {block.language}")

    def _execute(self, text: str, block: Block, *, may_fail: bool = False) -> str:
        script = "\n".join([*self._exports, text])
        command = ["bash", "-euo", "pipefail", "-c", script]
        result = subprocess.run(
            command,
            cwd=self.folder,
            env=self._variables,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        expected = int(block.argument) if block.role == "fails" else 0
        ended = f"exit code {result.returncode}\n{result.stdout}{self._logs()}"
        assert may_fail or result.returncode == expected, self._where(block, ended)
        self._exports += _EXPORT.findall(text)
        return result.stdout

    def _compare(self, expected: str, printed: str, block: Block, last: Block) -> None:
        pattern = _pattern(expected)
        deadline = time.monotonic() + (WAIT_S if block.role == "until" else 0)
        took = 0.0
        while not pattern.search(_normal(printed)):
            problem = f"expected\n{expected}\nbut the commands of line {last.line} printed\n{printed}{self._logs()}"
            assert time.monotonic() < deadline, self._where(block, problem)
            time.sleep(max(0.5, took))  # the commands take CPU, which the worker needs
            began = time.monotonic()
            printed = self._execute(self._replaced(last.text), last, may_fail=True)
            took = time.monotonic() - began

    def _open_terminal(self, name: str, text: str) -> None:
        script = "\n".join([*self._exports, f"exec {text.strip()}"])
        with (self.folder / f".{name}.log").open("ab") as log:
            self._terminals[name] = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                cwd=self.folder,
                env=self._variables,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _stop_terminal(self, block: Block) -> None:
        problems = self._press_ctrl_c({block.argument: self._terminals.pop(block.argument)})
        assert not problems, self._where(block, f"{problems}{self._logs()}")

    def _press_ctrl_c(self, terminals: Mapping[str, subprocess.Popen[bytes]]) -> list[str]:
        """Ends the commands of terminals. Returns what is wrong with their ends."""
        running = {name: process for name, process in terminals.items() if process.poll() is None}
        problems = [f"{name} ended by itself with {terminals[name].returncode}" for name in terminals.keys() - running]
        # All at once: each takes a moment to leave its group.
        for process in running.values():
            os.killpg(process.pid, signal.SIGINT)
        for name, process in running.items():
            try:
                code = process.wait(WAIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                code = process.wait(WAIT_S)
            if code:
                problems.append(f"{name} ended with {code} after Ctrl-C")
        return problems

    def _wait_for(self, url: str, block: Block) -> None:
        deadline = time.monotonic() + WAIT_S
        while not responds(url):
            ended = [name for name, process in self._terminals.items() if process.poll() is not None]
            problem = self._where(block, f"{url} does not respond; ended terminals: {ended}{self._logs()}")
            assert not ended, problem
            assert time.monotonic() < deadline, problem
            time.sleep(0.05)

    def _replaced(self, text: str) -> str:
        for old, new in self._replacements.items():
            text = text.replace(old, new)
        return text

    def _logs(self) -> str:
        return "".join(f"\n--- {path.name}\n{path.read_text()[-3000:]}" for path in sorted(self.folder.glob(".*.log")))

    def _where(self, block: Block, problem: str) -> str:
        return f"{self.page.name}:{block.line}: {problem}"


def responds(url: str) -> bool:
    """Whether the URL answers a GET request with success."""
    try:
        with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _normal(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.splitlines())


def _pattern(expected: str) -> re.Pattern[str]:
    lines = [_normal(line) for line in expected.splitlines() if line.strip()]
    return re.compile(r"[^\n]*(?:\n.*?)?".join(map(_line_pattern, lines)), re.M | re.S)


def _line_pattern(line: str) -> str:
    escaped = r"[^\n]*?".join(re.escape(part) for part in line.split("..."))
    return f"^{escaped}$" if line.isdigit() else rf"(?<!\w){escaped}(?!\w)"
