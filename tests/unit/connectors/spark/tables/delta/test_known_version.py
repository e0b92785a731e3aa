"""What maintenance of a table that is only appended to may pass over."""

from __future__ import annotations

from typing import Any

import pytest

from connectors.spark.tables.delta.known_version import KnownVersion
from connectors.spark.tables.delta.log import LoggedCommit


class Transaction:
    def __init__(self, version: int) -> None:
        self.version = version

    def table_id(self) -> str:
        return "t"


class Log:
    def __init__(self, *commits: LoggedCommit) -> None:
        self._commits = {one.version: one for one in commits}

    def commit(self, version: int) -> LoggedCommit | None:
        return self._commits.get(version)


@pytest.mark.parametrize(
    ("commit", "passes"),
    [
        (LoggedCommit(2, info={"operation": "WRITE"}), True),
        (LoggedCommit(2, transactions={"another connector's": 7}), True),
        (LoggedCommit(2, transactions={"own": 7}), True),
        (LoggedCommit(2, alters=True), False),
        (LoggedCommit(3), False),
    ],
    ids=["rows of others", "offsets of others", "offsets of a successor", "schema", "unknown"],
)
def test_only_rows_of_others_are_passed_over(commit: LoggedCommit, passes: bool) -> None:
    known = KnownVersion(version=1, table_id="t")
    transaction: Any = Transaction(2)
    log: Any = Log(commit)
    assert known.follows(transaction, log) is passes
    # The next commit of the task is refused if a successor has moved its ends.
    assert (known.version, known.ends) == ((2, commit.transactions) if passes else (1, {}))
