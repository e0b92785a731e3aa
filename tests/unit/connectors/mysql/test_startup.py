"""How a task starts, by snapshot mode, position, schema history, and state of the server."""

from __future__ import annotations

from typing import Any

import pytest

from connect.errors import ConfigError, ConnectError
from connectors.cdc.errors import PositionLostError
from connectors.mysql.config_keys import SNAPSHOT_MODES
from connectors.mysql.history_keys import MEMORY, HistorySettings
from connectors.mysql.startup import MySqlStart, MySqlStartPlan, plan_mysql_start

LOST = PositionLostError("removed")
HISTORY = HistorySettings(topic="history.shop")


def plan(mode: str, completed: bool | None = True, **known: Any) -> MySqlStartPlan:
    values = {"lost": None, "knows_structure": True, "history": HISTORY, **known}
    return plan_mysql_start(mode, snapshot_completed=completed, **values)


@pytest.mark.parametrize("mode", SNAPSHOT_MODES)
def test_first_start_reads_rows_or_structure(mode: str) -> None:
    if mode == "recovery":
        with pytest.raises(ConfigError, match="none is stored"):
            plan(mode, None)
        return
    expected = MySqlStart.STRUCTURE if mode == "no_data" else MySqlStart.SNAPSHOT
    assert plan(mode, None) == MySqlStartPlan(expected)


@pytest.mark.parametrize(
    ("mode", "action"),
    [
        ("initial", MySqlStart.STREAM),
        ("initial_only", MySqlStart.DONE),
        ("always", MySqlStart.CATCH_UP),
        ("when_needed", MySqlStart.STREAM),
        ("no_data", MySqlStart.STREAM),
        ("recovery", MySqlStart.REBUILD),
    ],
)
def test_stored_position_continues(mode: str, action: MySqlStart) -> None:
    assert plan(mode).action is action


@pytest.mark.parametrize("mode", SNAPSHOT_MODES)
def test_incomplete_snapshot_continues_after_the_changes_in_between(mode: str) -> None:
    actions = {"no_data": MySqlStart.STRUCTURE, "initial_only": MySqlStart.SNAPSHOT}
    assert plan(mode, False).action is actions.get(mode, MySqlStart.CATCH_UP)


def test_incomplete_snapshot_starts_over_without_log_or_history() -> None:
    found = plan("initial", False, lost=LOST)
    assert found.action is MySqlStart.SNAPSHOT
    assert "rows that were deleted meanwhile may remain" in (found.warning or "")
    assert plan("initial", False, knows_structure=False).action is MySqlStart.SNAPSHOT


@pytest.mark.parametrize("mode", ["initial", "no_data", "recovery"])
def test_lost_position_is_an_error(mode: str) -> None:
    with pytest.raises(PositionLostError, match="removed"):
        plan(mode, lost=LOST)


@pytest.mark.parametrize("mode", ["when_needed", "always"])
def test_lost_position_is_replaced_by_a_new_snapshot_where_the_mode_says_so(mode: str) -> None:
    assert plan(mode, lost=LOST) == MySqlStartPlan(MySqlStart.SNAPSHOT, "removed; taking a new snapshot")


def test_lost_history_is_an_error_unless_the_mode_replaces_it() -> None:
    with pytest.raises(ConnectError, match=r"topic history\.shop has nothing for the stored position.*snapshot\.mode=recovery"):
        plan("initial", knows_structure=False)
    with pytest.raises(ConnectError, match="was in memory"):
        plan("initial", knows_structure=False, history=HistorySettings(kind=MEMORY))
    assert plan("when_needed", knows_structure=False).action is MySqlStart.SNAPSHOT
    assert plan("always", knows_structure=False).action is MySqlStart.SNAPSHOT
    assert plan("recovery", knows_structure=False) == MySqlStartPlan(MySqlStart.REBUILD)
    assert "is not empty" in (plan("recovery").warning or "")
