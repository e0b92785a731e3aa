"""Problems of the source that a user should know of, and which of them are new."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem. ``code`` is stable; ``message`` says what to do. ``subject`` tells problems with one code apart."""

    code: str
    message: str
    subject: str = ""


class ProblemList:
    """The problems that exist now. Logs each one when it appears and when it is resolved. Thread-safe to read."""

    def __init__(self) -> None:
        self._lasting: dict[tuple[str, str], Problem] = {}
        self._current: dict[tuple[str, str], Problem] = {}

    def add(self, problem: Problem) -> None:
        """Adds a problem that lasts as long as the task."""
        self._lasting = {**self._lasting, (problem.code, problem.subject): problem}
        log.warning("%s", problem.message)

    def update(self, problems: Iterable[Problem]) -> None:
        """Replaces the problems that may resolve themselves."""
        current = {(problem.code, problem.subject): problem for problem in problems}
        for key, problem in current.items():
            if key not in self._current:
                log.warning("%s", problem.message)
        for key, problem in self._current.items():
            if key not in current:
                log.info("resolved: %s", problem.message)
        self._current = current

    def as_json(self) -> list[dict[str, str]]:
        problems = [*self._lasting.values(), *self._current.values()]
        return [{"code": problem.code, "message": problem.message} for problem in problems]
