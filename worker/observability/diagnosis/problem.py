"""The finding of a diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from connect.config.finding import Finding, Severity

_RANK = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


@dataclass(frozen=True, slots=True)
class Problem:
    """A :class:`Finding` about a cluster, a connector, or a task."""

    finding: Finding
    connector: str | None = None
    """None for the worker or its cluster."""
    task: int | None = None
    cause: str | None = None
    """The likely cause."""
    command: str | None = None
    """The command that fixes it, or shows more."""
    since_ms: int | None = None
    """Since when, at least, in ms since 1970; None if unknown."""

    @property
    def is_problem(self) -> bool:
        """Whether something is wrong; a note only informs."""
        return self.finding.severity is not Severity.NOTE

    @property
    def name(self) -> str:
        """What it is about: ``orders``, ``orders/0`` for a task, or ``worker``."""
        if self.connector is None:
            return "worker"
        return self.connector if self.task is None else f"{self.connector}/{self.task}"

    def masked(self, mask: Callable[[str], str]) -> Problem:
        """Returns a copy whose texts were passed through ``mask`` (promise 9)."""
        finding = self.finding
        shown = replace(finding, message=mask(finding.message), suggestion=finding.suggestion and mask(finding.suggestion))
        return replace(self, finding=shown, cause=self.cause and mask(self.cause), command=self.command and mask(self.command))

    def as_json(self) -> dict[str, Any]:
        """Returns the finding's members, and those of the problem, for REST and ``-o json``."""
        members = {name: value for name, value in self.finding.as_json().items() if name not in ("file", "line")}
        return {
            "name": self.name,
            "connector": self.connector,
            "task": self.task,
            **members,
            "cause": self.cause,
            "command": self.command,
            "since_ms": self.since_ms,
        }

    @classmethod
    def of_json(cls, members: dict[str, Any]) -> Problem:
        """Reads what :meth:`as_json` returned. Raises KeyError or ValueError for anything else."""
        severity = Severity(members["severity"])
        finding = Finding(members["code"], severity, members["message"], members.get("path"), members.get("suggestion"))
        rest = (members.get(name) for name in ("connector", "task", "cause", "command", "since_ms"))
        return cls(finding, *rest)


def sort_problems(problems: Iterable[Problem]) -> list[Problem]:
    """Returns each problem once: errors first, then by connector and task."""
    found: dict[tuple[Any, ...], Problem] = {}
    for one in problems:
        found.setdefault((one.connector, one.task, one.finding.code, one.finding.path), one)
    return sorted(
        found.values(),
        key=lambda one: (
            _RANK[one.finding.severity],
            one.connector or "",
            -1 if one.task is None else one.task,
            one.finding.code,
        ),
    )
