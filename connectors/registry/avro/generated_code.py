"""Generated functions, and from which line of them a failure came.

A codec is Python source made for one schema: straight code without looking anything up. What field a line belongs to is kept
beside it, so a failure names its field by its traceback and good data pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any

_numbers = count()


class SourceText:
    """Functions being written, with the constants they use."""

    def __init__(self, what: str) -> None:
        self.file_name = f"<{what} {next(_numbers)}>"
        self.constants: dict[str, Any] = {}
        self._functions: list[list[tuple[str, str]]] = []
        self._label = ""

    def constant(self, value: Any) -> str:
        """A name for the value in the functions."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self) -> list[tuple[str, str]]:
        """A new function's lines, each with its label; to be filled through :meth:`write`."""
        lines: list[tuple[str, str]] = []
        self._functions.append(lines)
        return lines

    def write(self, lines: list[tuple[str, str]], indent: int, text: str) -> None:
        lines.append(("    " * indent + text, self._label))

    @contextmanager
    def labelled(self, label: str) -> Iterator[None]:
        """Lines written within are of that field."""
        before, self._label = self._label, label
        try:
            yield
        finally:
            self._label = before

    def compiled(self, scope: dict[str, Any]) -> tuple[dict[str, Any], FieldFinder]:
        """The functions by name, and what finds the field of a failure in them."""
        lines = [line for function in self._functions for line in function]
        names = {**scope, **self.constants}
        exec(compile("\n".join(text for text, _ in lines), self.file_name, "exec"), names)
        return names, FieldFinder(self.file_name, [label for _, label in lines])


class FieldFinder:
    """Tells the field in which a generated function failed."""

    __slots__ = ("_file_name", "_labels")

    def __init__(self, file_name: str, labels: list[str]) -> None:
        self._file_name = file_name
        self._labels = labels

    def path(self, error: BaseException) -> str:
        """The field's path with dots; empty when the failure is of no field."""
        parts: list[str] = []
        step: TracebackType | None = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == self._file_name and (label := self._labels[step.tb_lineno - 1]):
                parts.append(label)
            step = step.tb_next
        return ".".join(parts)

    def located(self, error: BaseException, message: str) -> str:
        """The message with the field before it."""
        path = self.path(error)
        return f"field {path}: {message}" if path else message
