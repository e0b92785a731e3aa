"""Generates functions and finds the field of a failure by its line.

A codec is Python source generated for one schema, without lookups. Each line is labeled with its field, so that a traceback
identifies the field of a failure at no cost for valid data.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any

_numbers = count()


class GeneratedSource:
    """Source of generated functions, with their constants."""

    def __init__(self, what: str) -> None:
        self.file_name = f"<{what} {next(_numbers)}>"
        self.constants: dict[str, Any] = {}
        self._functions: list[list[tuple[str, str]]] = []
        self._label = ""

    def constant(self, value: Any) -> str:
        """Adds a constant; returns its name in the functions."""
        name = f"k{len(self.constants)}"
        self.constants[name] = value
        return name

    def function(self) -> list[tuple[str, str]]:
        """Adds a function; returns its lines, which :meth:`write` fills."""
        lines: list[tuple[str, str]] = []
        self._functions.append(lines)
        return lines

    def write(self, lines: list[tuple[str, str]], indent: int, text: str) -> None:
        lines.append(("    " * indent + text, self._label))

    @contextmanager
    def labeled(self, label: str) -> Iterator[None]:
        """Labels lines written within the block with that field."""
        before, self._label = self._label, label
        try:
            yield
        finally:
            self._label = before

    def compile(self, scope: dict[str, Any]) -> tuple[dict[str, Any], FieldFinder]:
        """Compiles the functions; returns them by name, with a finder for the fields of failures."""
        lines = [line for function in self._functions for line in function]
        names = {**scope, **self.constants}
        exec(compile("\n".join(text for text, _ in lines), self.file_name, "exec"), names)
        return names, FieldFinder(self.file_name, [label for _, label in lines])


class FieldFinder:
    """Finds the field in which a generated function failed."""

    __slots__ = ("_file_name", "_labels")

    def __init__(self, file_name: str, labels: list[str]) -> None:
        self._file_name = file_name
        self._labels = labels

    def path(self, error: BaseException) -> str:
        """The field's path with dots; empty if the failure does not belong to a field."""
        parts: list[str] = []
        step: TracebackType | None = error.__traceback__
        while step is not None:
            if step.tb_frame.f_code.co_filename == self._file_name and (label := self._labels[step.tb_lineno - 1]):
                parts.append(label)
            step = step.tb_next
        return ".".join(parts)

    def add_field_path(self, error: BaseException, message: str) -> str:
        """Adds the field path to a message."""
        path = self.path(error)
        return f"field {path}: {message}" if path else message
