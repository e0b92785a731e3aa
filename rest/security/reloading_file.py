"""A file whose parsed content follows its changes."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from connect.errors import ConfigError

T = TypeVar("T")

log = logging.getLogger(__name__)

_Seen = tuple[int, int, int]


class ReloadingFile(Generic[T]):
    """Parses a file again when it has changed. Safe for use from any thread.

    A changed file that cannot be parsed is logged, and the former content stays in use: it may be half written. A file that is
    gone or cannot be read has no content.
    """

    def __init__(self, path: str, key: str, parse: Callable[[str], T]) -> None:
        """``parse`` gets the text and raises ConfigError. Raises ConfigError that names ``key`` if the file is unusable now."""
        self._path = path
        self._key = key
        self._parse = parse
        self._lock = threading.Lock()
        self.version = 0
        """Grows with each change; what was derived from an older version is outdated."""
        seen = self._stat()
        if seen is None:
            raise ConfigError.invalid(key, path, "the file does not exist or cannot be read")
        self._seen: _Seen | None = seen
        self._content: T | None = self._load()

    def content(self) -> T | None:
        """Returns the current content; None if the file is gone."""
        if self._stat() != self._seen:
            with self._lock:
                # Again, since another thread may have loaded a later version meanwhile.
                seen = self._stat()
                if seen != self._seen:
                    self._reload(seen)
        return self._content

    def _reload(self, seen: _Seen | None) -> None:
        if seen is None:
            log.error("%s %s cannot be read: nobody it names is accepted until it is back", self._key, self._path)
            self._content = None
        else:
            try:
                self._content = self._load()
            except ConfigError as e:
                log.error("%s has changed but cannot be used; keeping its former content: %s", self._path, e.message)
            else:
                log.info("Reloaded %s", self._path)
        self.version += 1
        self._seen = seen

    def _load(self) -> T:
        try:
            with open(self._path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as e:
            raise ConfigError.invalid(self._key, self._path, f"the file cannot be read: {_reason(e)}") from e
        try:
            return self._parse(text)
        except ConfigError as e:
            raise ConfigError.invalid(self._key, self._path, e.message) from e

    def _stat(self) -> _Seen | None:
        try:
            found = os.stat(self._path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or "unreadable" if isinstance(error, OSError) else "it is not UTF-8 text"
