"""Signals in the signal table."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic

from connectors.cdc.config.signal_keys import SignalSettings
from connectors.cdc.signals.actions import Signal
from connectors.cdc.streaming.observers import ChangeT, TableT

log = logging.getLogger(__name__)

_COLUMNS = 3


class SignalTable(Generic[TableT, ChangeT]):
    """Passes on the rows that are inserted into the signal table (a RowObserver)."""

    def __init__(
        self,
        settings: SignalSettings,
        handle: Callable[[Signal], None],
        name_of: Callable[[TableT], tuple[str, str]],
        inserted_texts: Callable[[TableT, ChangeT], Sequence[str | None] | None],
    ) -> None:
        """``name_of`` returns schema and name of a table; ``inserted_texts`` the captured columns of an inserted row, None for
        other changes."""
        self._name = settings.table
        self._handle = handle
        self._name_of = name_of
        self._inserted_texts = inserted_texts

    def observes(self, rows: TableT) -> bool:
        return self._name == self._name_of(rows)

    def on_change(self, rows: TableT, message: ChangeT) -> None:
        if (texts := self._inserted_texts(rows, message)) is None:
            return
        if len(texts) != _COLUMNS:
            name = ".".join(self._name_of(rows))
            log.warning("signal table %s must have 3 columns (id, type, data), but has %d", name, len(texts))
            return
        id_, type_, data = texts
        self._handle(Signal(id_ or "", type_ or "", data))

    def on_truncate(self, rows: TableT) -> None:
        """Does nothing: only inserted rows are signals."""

    def on_disconnect(self) -> None:
        """Does nothing: signals that are emitted are not sent again."""
