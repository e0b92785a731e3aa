"""Statuses of connectors as REST shows them: those in the status topic, with the types of the connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from worker.model import ConnectorStatus
from worker.storage.config_state import ConfigEntry, ConfigState

UNKNOWN_TYPE = "unknown"


@dataclass(frozen=True, slots=True)
class _Shown:
    stored: ConnectorStatus
    entry: ConfigEntry
    status: ConnectorStatus


class ShownStatuses:
    """Keeps each status until the stored one or the connector's configuration changes: a list has hundreds of connectors, of
    which hardly any have changed since the last request. Safe for use from any thread; may block for plugins."""

    def __init__(self, type_of: Callable[[Mapping[str, str | None]], str]) -> None:
        """``type_of`` gets a connector's configuration."""
        self._type_of = type_of
        # Without a lock: both keys are compared with what is valid now, so the worst that threads do is to repeat work.
        self._known: dict[str, _Shown] = {}

    def of(self, stored: Sequence[ConnectorStatus], state: ConfigState) -> list[ConnectorStatus]:
        """Returns stored statuses with types, and without tasks that were removed. An unchanged one is the same object."""
        known, entries = self._known, state.entries
        if len(known) > len(entries):
            for name in [name for name in list(known) if name not in entries]:
                known.pop(name, None)
        shown = []
        for one in stored:
            found = known.get(one.name)
            if found is not None and found.stored is one and found.entry is entries.get(one.name):
                shown.append(found.status)
            else:
                shown.append(self._show(one, state))
        return shown

    def _show(self, stored: ConnectorStatus, state: ConfigState) -> ConnectorStatus:
        name, tasks = stored.name, stored.tasks
        if tasks and state.contains(name) and tasks[-1][0] >= (count := state.task_count(name)):
            tasks = [(number, status) for number, status in tasks if number < count]
        status = ConnectorStatus(name, stored.connector, tasks, self._type_of(state.config(name) or {}))
        entry = state.entries.get(name)
        if entry is not None and status.type != UNKNOWN_TYPE:  # an unknown plugin may be installed later
            self._known[name] = _Shown(stored, entry, status)
        return status
