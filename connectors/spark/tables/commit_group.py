"""Commits of several tables that take effect at once, in a catalog that can do that."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any, Protocol, runtime_checkable

from connect.errors import RetriableError
from connectors.spark.tables.conflicts import CommitConflict

CommitAll = Callable[[Sequence[Any]], Sequence[Any]]
"""Commits what the tables have staged, all or nothing; returns their answers."""


class AtomicCommitsUnsupported(Exception):
    """The catalog cannot commit several tables at once. Nothing was committed."""


class CommitGroupAborted(RetriableError):
    """Nothing was committed, because another table of the group failed."""


class CommitGroup:
    """Each table of the group is committed by a thread of its own, which waits until all others have staged their commits, or
    have left. If one fails, none is committed. May be used by several threads."""

    def __init__(self, members: Collection[str]) -> None:
        self.is_supported = True
        """False once the catalog has refused; then the tables commit one by one."""
        self._members = set(members)
        self._condition = threading.Condition()
        self._staged: dict[str, Any] = {}
        self._answers: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._is_broken = False
        self._is_running = False
        self._generation = 0

    def commit(self, member: str, staged: Any, commit_all: CommitAll) -> Any:
        """Commits together with the others; returns the answer for this table. Blocks. ``commit_all`` runs on one of the threads.

        Raises what it raises, in all threads, and CommitGroupAborted. After a conflict, all tables may stage again.
        """
        with self._condition:
            if self._is_broken:
                raise CommitGroupAborted("another table of the round could not be committed")
            generation = self._generation
            self._staged[member] = staged
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._generation != generation or self._is_broken or self._is_complete())
            is_leader = self._generation == generation and not self._is_broken
            if is_leader:
                self._is_running = True
        if is_leader:
            self._run(commit_all)
        with self._condition:
            if self._generation == generation:
                self._staged.pop(member, None)
                raise CommitGroupAborted("another table of the round could not be committed")
            if self._error is not None:
                raise self._error
            return self._answers.pop(member)

    def _is_complete(self) -> bool:
        return not self._is_running and self._staged.keys() == self._members

    def _run(self, commit_all: CommitAll) -> None:
        """Commits what is staged. All other threads of the group wait meanwhile."""
        members = sorted(self._staged)
        answers: dict[str, Any] = {}
        error: BaseException | None = None
        try:
            answers = dict(zip(members, commit_all([self._staged[name] for name in members]), strict=True))
        except BaseException as e:
            error = e
        with self._condition:
            self._answers, self._error, self._staged, self._is_running = answers, error, {}, False
            self.is_supported = self.is_supported and not isinstance(error, AtomicCommitsUnsupported)
            self._is_broken = error is not None and not isinstance(error, CommitConflict | AtomicCommitsUnsupported)
            self._generation += 1
            self._condition.notify_all()

    def leave(self, member: str, *, failed: bool) -> None:
        """The table has nothing more to commit, or ``failed``."""
        with self._condition:
            if member not in self._members:
                return
            self._members.discard(member)
            self._is_broken = self._is_broken or failed
            self._condition.notify_all()


@runtime_checkable
class GroupedTable(Protocol):
    """A table whose catalog may be able to commit several tables at once."""

    group: CommitGroup | None

    @property
    def path(self) -> str:
        """Its name in the group."""
        ...

    @property
    def can_be_grouped(self) -> bool: ...
