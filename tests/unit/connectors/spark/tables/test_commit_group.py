"""Groups of table commits that take effect at once."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from connectors.spark.tables.commit_group import AtomicCommitsUnsupported, CommitGroup, CommitGroupAborted
from connectors.spark.tables.conflicts import CommitConflict
from tests.support.waiting import WAIT_S


class Catalog:
    """Remembers what was committed together; the next commits raise ``errors``."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.commits: list[list[str]] = []

    def commit_all(self, staged: Sequence[Any]) -> list[str]:
        if self.errors:
            raise self.errors.pop(0)
        self.commits.append(list(staged))
        return [f"answer to {one}" for one in staged]


@pytest.fixture
def pool() -> Any:
    with ThreadPoolExecutor(4) as found:
        yield found


def commit(pool: ThreadPoolExecutor, group: CommitGroup, catalog: Catalog, *names: str) -> list[Future[Any]]:
    return [pool.submit(group.commit, name, name, catalog.commit_all) for name in names]


def test_all_tables_are_committed_by_one_call(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(), CommitGroup(["a", "b", "c"])
    found = commit(pool, group, catalog, "c", "a", "b")
    assert [one.result(WAIT_S) for one in found] == ["answer to c", "answer to a", "answer to b"]
    assert catalog.commits == [["a", "b", "c"]]


def test_a_table_without_changes_is_not_waited_for(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(), CommitGroup(["a", "b"])
    (found,) = commit(pool, group, catalog, "a")
    group.leave("b", failed=False)
    assert found.result(WAIT_S) == "answer to a"
    assert catalog.commits == [["a"]]


def test_a_failed_table_keeps_the_others_from_being_committed(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(), CommitGroup(["a", "b", "c"])
    found = commit(pool, group, catalog, "a", "b")
    group.leave("c", failed=True)
    for one in found:
        with pytest.raises(CommitGroupAborted):
            one.result(WAIT_S)
    with pytest.raises(CommitGroupAborted):
        group.commit("c", "c", catalog.commit_all)
    assert catalog.commits == []


def test_all_tables_stage_again_after_a_conflict(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(CommitConflict("another writer")), CommitGroup(["a", "b"])
    for one in commit(pool, group, catalog, "a", "b"):
        with pytest.raises(CommitConflict):
            one.result(WAIT_S)
    assert [one.result(WAIT_S) for one in commit(pool, group, catalog, "a", "b")] == ["answer to a", "answer to b"]


def test_a_catalog_that_cannot_do_it_is_noticed(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(AtomicCommitsUnsupported("404")), CommitGroup(["a", "b"])
    for one in commit(pool, group, catalog, "a", "b"):
        with pytest.raises(AtomicCommitsUnsupported):
            one.result(WAIT_S)
    assert not group.is_supported


def test_an_unknown_outcome_reaches_all_tables(pool: ThreadPoolExecutor) -> None:
    catalog, group = Catalog(OSError("timed out")), CommitGroup(["a", "b"])
    for one in commit(pool, group, catalog, "a", "b"):
        with pytest.raises(OSError, match="timed out"):
            one.result(WAIT_S)
