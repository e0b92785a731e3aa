"""The configuration that the herder goes by, and reading the config topic to its end."""

from __future__ import annotations

import logging

from connect.errors import ConnectError
from worker.distributed.herder_loop import HerderLoop
from worker.storage.config_state import ConfigState
from worker.storage.config_store import ConfigStore

log = logging.getLogger(__name__)


class ConfigSync:
    """Owned by the herder's thread; other threads may read :attr:`state` and :attr:`store`."""

    def __init__(self, store: ConfigStore, loop: HerderLoop, sync_timeout_s: float) -> None:
        """``sync_timeout_s`` is ``worker.sync.timeout.ms``."""
        self.store = store
        self.state: ConfigState = store.snapshot()
        """The configuration that the worker goes by; the store may know a newer one."""
        self.is_behind = False
        """Whether the last read to the end of the topic failed and is to be repeated."""
        self._loop = loop
        self._sync_timeout_s = sync_timeout_s

    def apply_snapshot(self) -> ConfigState:
        """Goes by everything read so far. Returns the previous configuration."""
        before, self.state = self.state, self.store.snapshot()
        return before

    def refresh(self) -> None:
        """Waits until the store has read all that was written before the call. Any thread. Raises UnreachableError."""
        self.store.refresh(self._sync_timeout_s)

    def read_to(self, offset: int) -> bool:
        """Reads the topic up to an offset, or to its end. Returns False, and sets :attr:`is_behind`, after
        ``worker.sync.timeout.ms``."""
        if self.store.snapshot().offset >= offset:
            return True
        try:
            self._read_to_end()
        except ConnectError as e:
            log.warning("The config topic could not be read to its end: %s; trying again", e.message)
            self.is_behind = True
            return False
        return True

    def catch_up(self) -> bool:
        """Repeats a read that failed. Returns whether it succeeded."""
        try:
            self._read_to_end()
        except ConnectError as e:
            log.debug("The config topic could still not be read to its end: %s", e.message)
            return False
        self.is_behind = False
        return True

    def _read_to_end(self) -> None:
        with self._loop.doing("reading to the end of the config topic"):
            self.refresh()
