"""The offsets of snapshot rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from connectors.cdc.snapshot.key_ranges import PartialTable, SnapshotState


@dataclass(frozen=True, slots=True)
class OffsetStep:
    """The offsets of consecutive rows: ``before`` until the last of them, which has ``after``."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]


class EmittedTable(Protocol):
    """A table whose rows are emitted."""

    @property
    def id(self) -> str: ...
    @property
    def fingerprint(self) -> str: ...
    def state(self) -> PartialTable | None:
        """What an offset stores while the table is incomplete; None if it has to be read from the start."""


class SnapshotOffsets(Protocol):
    """The offsets of rows in the order of their emission."""

    def table_emitted(self, table: EmittedTable, *, is_complete: bool = False) -> None:
        """Rows of a table were emitted, or it has no more rows."""

    def step(self, *, last: bool = False) -> OffsetStep:
        """The offsets of the rows emitted since the last call. ``last``: the snapshot is complete."""


class InitialOffsets:
    """The offsets of the initial snapshot."""

    def __init__(
        self,
        create: Callable[[bool, str | None], Mapping[str, Any]],
        state: SnapshotState | None,
        extras: Callable[[], Mapping[str, Any]] = dict,
    ) -> None:
        """``create`` returns the offset of a row, from whether it is the last one and what of the snapshot is completed.

        ``state`` is None if a later attempt starts over in any case; ``extras`` returns what offsets have in addition.
        """
        self._create = create
        self._state = state
        self._extras = extras
        self._latest = self._offset(last=False)

    def table_emitted(self, table: EmittedTable, *, is_complete: bool = False) -> None:
        """Rows of a table were emitted, or it has no more rows."""
        if self._state is None:
            return
        if is_complete:
            self._state.complete(table.id, table.fingerprint)
        elif (partial := table.state()) is not None:
            self._state.partial[table.id] = partial

    def step(self, *, last: bool = False) -> OffsetStep:
        """The offsets of the rows emitted since the last call. ``last``: the snapshot is complete."""
        before, self._latest = self._latest, self._offset(last=last)
        return OffsetStep(before, self._latest)

    def _offset(self, *, last: bool) -> Mapping[str, Any]:
        state = None if self._state is None or last else self._state.encode()
        return {**self._create(last, state), **self._extras()}
