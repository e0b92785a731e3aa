"""Signals in a file, as Debezium's file signal channel reads them."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from connectors.cdc.signals.actions import Signal, parse_json_signal
from connectors.cdc.streaming.offset_extras import OffsetExtras

log = logging.getLogger(__name__)

_MARK = "signal_file"
"""Our own key in offsets: the beginning of the file that was read, as its size and hash."""


class SignalFile:
    """A file with one signal per line, as JSON.

    Lines are removed once offsets with the snapshots that they ask for are stored, so that a crash does not lose them. The
    offsets say which lines those are, so that a crash before the removal does not repeat them.
    """

    def __init__(self, path: str, extras: OffsetExtras, stored: Mapping[str, Any]) -> None:
        """``stored`` is the stored offset."""
        self._path = Path(path)
        self._extras = extras
        self._done = str(stored.get(_MARK) or "")
        self._read = b""
        """The beginning of the file, whose signals were passed on."""
        self._changed_ns = 0

    def read(self) -> list[Signal]:
        """Returns new signals. Problems are logged."""
        try:
            if not self._path.is_file():
                return []
            changed_ns, content = self._path.stat().st_mtime_ns, self._path.read_bytes()
        except OSError as e:
            log.warning("cannot read the signal file %s: %s", self._path, e)
            return []
        if self._done:
            self._read, self._done = _marked(content, self._done), ""
        is_rewritten = content == self._read and changed_ns != self._changed_ns and self._changed_ns != 0
        if is_rewritten or not content.startswith(self._read):
            self._read = b""
        self._changed_ns = changed_ns
        new = content[len(self._read) :]
        if not new:
            return []
        self._read = content
        self._extras.set_offset_extras(self, {_MARK: _mark(content)})
        lines = new.decode("utf-8", "replace").splitlines()
        return [signal for line in lines if line.strip() and (signal := parse_json_signal(line)) is not None]

    def offsets_stored(self, offsets: Iterable[Mapping[str, Any]]) -> None:
        """Offsets are durable."""
        if not self._read or _mark(self._read) not in [offset.get(_MARK) for offset in offsets]:
            return
        try:
            content = self._path.read_bytes() if self._path.is_file() else b""
            if content.startswith(self._read):
                self._path.write_bytes(content[len(self._read) :])
                self._changed_ns = self._path.stat().st_mtime_ns
        except OSError as e:
            log.warning("cannot remove the signals that were read from %s: %s", self._path, e)
            return
        self._read = b""
        self._extras.set_offset_extras(self, {})

    def close(self) -> None:
        """Does nothing: the file is open only while it is read."""


def _mark(content: bytes) -> str:
    return f"{len(content)} {hashlib.sha256(content).hexdigest()[:16]}"


def _marked(content: bytes, mark: str) -> bytes:
    """The beginning of a file that a mark says; empty if the file is another one by now."""
    size = mark.partition(" ")[0]
    beginning = content[: int(size)] if size.isdecimal() else b""
    return beginning if _mark(beginning) == mark else b""
