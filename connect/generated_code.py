"""Compiles generated Python source, and maps failures in it to fields.

Code generated for one schema or statement runs straight through, without lookups. Tracebacks show its lines.
:class:`GeneratedSource` also stores the field of each line, so that a failure names its field by its traceback and valid data
costs nothing extra.

Source must contain generated names and numbers only. Pass names and values of users as constants.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from types import CodeType, TracebackType
from typing import Any

_numbers = count()


class _SourceLoader:
    """Provides the source to :mod:`linecache`, and so to tracebacks, for as long as the code exists."""

    __slots__ = ("_source",)

    def __init__(self, source: str) -> None:
        self._source = source

    def get_source(self, name: str) -> str:
        return self._source


def define_functions(source: str | Sequence[str], constants: dict[str, Any] | None = None, *, title: str) -> dict[str, Any]:
    """Executes function definitions and returns them by name, together with the constants that they use.

    ``source`` is text or a sequence of lines. ``title`` describes the code in tracebacks.
    """
    text = source if isinstance(source, str) else "\n".join(source)
    code, names = _compile(text, constants, _file_name(title), "exec")
    exec(code, names)
    return names


def evaluate(expression: str, constants: dict[str, Any] | None = None, *, title: str) -> Any:
    """Evaluates an expression, such as a lambda, with the constants that it uses. ``title`` describes it in tracebacks."""
    code, names = _compile(expression, constants, _file_name(title), "eval")
    return eval(code, names)


def _file_name(title: str) -> str:
    # Without angle brackets: linecache ignores names that have them.
    return f"generated/{title} {next(_numbers)}"


def _compile(text: str, constants: dict[str, Any] | None, file_name: str, mode: str) -> tuple[CodeType, dict[str, Any]]:
    names = {**(constants or {}), "__name__": file_name, "__loader__": _SourceLoader(text)}
    return compile(text, file_name, mode), names


class GeneratedSource:
    """Collects generated functions and the constants that they use."""

    def __init__(self, title: str) -> None:
        self.file_name = _file_name(title)
        self.constants: dict[str, Any] = {}
        self._functions: list[list[tuple[str, str]]] = []
        self._label = ""

    def constant(self, value: Any) -> str:
        """Adds a constant and returns its name."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self) -> list[tuple[str, str]]:
        """Starts a function; returns its lines, to be filled with :meth:`write`."""
        lines: list[tuple[str, str]] = []
        self._functions.append(lines)
        return lines

    def write(self, lines: list[tuple[str, str]], indent: int, text: str) -> None:
        """Appends a line with the current label."""
        lines.append(("    " * indent + text, self._label))

    @contextmanager
    def labeled(self, label: str) -> Iterator[None]:
        """Labels the lines written in the block with a field."""
        before, self._label = self._label, label
        try:
            yield
        finally:
            self._label = before

    def compile(self, scope: dict[str, Any]) -> tuple[dict[str, Any], FieldFinder]:
        """Returns the functions by name, and the finder of the field in which one of them fails."""
        lines = [line for function in self._functions for line in function]
        code, names = _compile("\n".join(text for text, _ in lines), {**scope, **self.constants}, self.file_name, "exec")
        exec(code, names)
        return names, FieldFinder(self.file_name, [label for _, label in lines])


class FieldFinder:
    """Finds the field in which a generated function failed."""

    __slots__ = ("_file_name", "_labels")

    def __init__(self, file_name: str, labels: list[str]) -> None:
        self._file_name = file_name
        self._labels = labels

    def path(self, error: BaseException) -> str:
        """Returns the field's dotted path; empty if the failure concerns no field."""
        parts: list[str] = []
        step: TracebackType | None = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == self._file_name and (label := self._labels[step.tb_lineno - 1]):
                parts.append(label)
            step = step.tb_next
        return ".".join(parts)

    def add_field_path(self, error: BaseException, message: str) -> str:
        """Returns the message, prefixed with the field."""
        path = self.path(error)
        return f"field {path}: {message}" if path else message
