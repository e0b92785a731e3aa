"""Which files connectors may read and write: the worker key ``allowed.paths``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from connect.errors import ConfigError

ALLOWED_PATHS_KEY = "allowed.paths"


@dataclass(frozen=True, slots=True)
class PathRules:
    """Allows a path if it is, after links have been resolved, one of ``allowed`` or below one. None allows every path."""

    allowed: tuple[Path, ...] | None = None

    @classmethod
    def of(cls, paths: Iterable[str]) -> PathRules:
        """Parses the value of the key. Raises ConfigError for a path that is not absolute."""
        given = [Path(path.strip()) for path in paths if path.strip()]
        for path in given:
            if not path.is_absolute():
                raise ConfigError.invalid(ALLOWED_PATHS_KEY, path, "the path is not absolute")
        return cls(tuple(Path(os.path.realpath(path)) for path in given) or None)

    @property
    def is_open(self) -> bool:
        """Whether every path is allowed."""
        return self.allowed is None

    def allows(self, path: str | Path) -> bool:
        """Returns whether a path is allowed, wherever links in it lead. It need not exist; relative paths start at the working
        directory."""
        if self.allowed is None:
            return True
        real = Path(os.path.realpath(path))
        return any(real.is_relative_to(allowed) for allowed in self.allowed)

    def require(self, path: str | Path, key: str | None = None) -> None:
        """Raises ConfigError if a path is not allowed."""
        if not self.allows(path):
            raise ConfigError(_refused(path), key=key)

    def require_open_file(self, fd: int, path: str) -> None:
        """Raises ConfigError if an open file is not allowed: a link may have changed after :meth:`require`. On systems without
        ``/proc`` only the path is checked."""
        if self.allowed is None:
            return
        try:
            opened = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            opened = path
        self.require(opened.removesuffix(" (deleted)"))


def _refused(path: str | Path) -> str:
    return (
        f"The path {path} is not allowed on this worker: choose another one, or change {ALLOWED_PATHS_KEY} in the worker's "
        "configuration"
    )


def local_path(location: str) -> str | None:
    """Returns the path of a location without a scheme or with ``file:``, None for other URLs."""
    parts = urlsplit(location)
    if parts.scheme == "file":
        return unquote(parts.path)
    return None if "://" in location else location


class AllowedPath:
    """The validator of keys for files: accepts a path that the worker's ``allowed.paths`` allow."""

    def __call__(self, name: str, value: Any) -> None:
        if isinstance(value, str) and value and not path_rules().allows(value):
            raise ConfigError.invalid(name, value, _refused(value))

    def __str__(self) -> str:
        return "a path in allowed.paths of the worker"


_current = PathRules()


def install_path_rules(rules: PathRules) -> None:
    """Sets the rules of this process. Called once, before connectors run in it."""
    global _current
    _current = rules


def path_rules() -> PathRules:
    """Returns the rules of this process: those of its worker, or without a worker rules that allow everything."""
    return _current
