"""Which instances a restart of a connector with its tasks affects (KIP-745). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from worker.model import ConnectorStatus, State, Status


def to_restart(status: ConnectorStatus, *, include_tasks: bool, only_failed: bool) -> tuple[bool, list[int]]:
    """Returns whether to restart the connector's instance, and which tasks."""

    def is_included(one: Status) -> bool:
        return not only_failed or one.state is State.FAILED

    return is_included(status.connector), [number for number, task in status.tasks if include_tasks and is_included(task)]


def planned_restart(status: ConnectorStatus, with_connector: bool, tasks: Collection[int]) -> ConnectorStatus:
    """Returns the status in the response: everything that restarts is RESTARTING."""
    connector = replace(status.connector, state=State.RESTARTING) if with_connector else status.connector
    shown = [(n, replace(task, state=State.RESTARTING) if n in tasks else task) for n, task in status.tasks]
    return replace(status, connector=connector, tasks=shown)
