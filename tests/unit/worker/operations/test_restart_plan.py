"""Which connector and tasks a restart request restarts."""

from __future__ import annotations

from worker.model import ConnectorStatus, State, Status
from worker.operations.restart_plan import planned_restart, to_restart


def status(connector: State, *tasks: State) -> ConnectorStatus:
    return ConnectorStatus("c", Status(connector, "w"), [(i, Status(state, "w")) for i, state in enumerate(tasks)], "source")


def test_restart_plans() -> None:
    mixed = status(State.RUNNING, State.FAILED, State.RUNNING)
    assert to_restart(mixed, include_tasks=True, only_failed=True) == (False, [0])
    assert to_restart(mixed, include_tasks=True, only_failed=False) == (True, [0, 1])
    assert to_restart(mixed, include_tasks=False, only_failed=True) == (False, [])
    shown = planned_restart(mixed, False, [0])
    assert [one.state for _, one in shown.tasks] == [State.RESTARTING, State.RUNNING]
    assert shown.connector.state is State.RUNNING
