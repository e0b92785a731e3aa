"""``plugin.path``: directories that are searched for plugins, and virtual environments for connectors (``task.environment``)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from connect.errors import ConfigError


def extend_python_path(entries: Sequence[str]) -> list[str]:
    """Appends each directory to ``sys.path``, so that its modules do not hide installed ones.

    Returns a sentence for each unusable entry. Call it before plugin discovery.
    """
    unusable = []
    for entry in entries:
        folder = Path(entry).expanduser().absolute()
        if not folder.is_dir():
            unusable.append(f"plugin.path: {entry} is not a directory; ignoring it")
        elif not _is_environment(folder) and str(folder) not in sys.path:
            sys.path.append(str(folder))
            importlib.invalidate_caches()
    return unusable


def find_environments(entries: Sequence[str]) -> list[Path]:
    """Returns the virtual environments among the entries. This process does not search them for plugins."""
    folders = (Path(entry).expanduser().absolute() for entry in entries)
    return [folder for folder in folders if _is_environment(folder)]


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def validate_environment(given: str, listed: Sequence[Path]) -> Path:
    """Returns the directory of the virtual environment that ``task.environment`` names.

    Raises ConfigError if it is not a virtual environment, is not listed in the worker's ``plugin.path``, or has another Python
    version than the worker.
    """
    folder = Path(given).expanduser().absolute()
    if folder.resolve() not in [path.resolve() for path in listed]:
        known = ", ".join(map(str, listed)) or "none"
        raise ConfigError.invalid(
            "task.environment", given, f"the worker's plugin.path does not list it; virtual environments listed there: {known}"
        )
    if not (folder / "bin" / "python").exists():
        raise ConfigError.invalid("task.environment", given, "it has no bin/python")
    version = _python_version(folder)
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if version is not None and version != ours:
        raise ConfigError.invalid("task.environment", given, f"it has Python {version}, but this worker runs on Python {ours}")
    return folder


def _python_version(environment: Path) -> str | None:
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() in ("version", "version_info"):
            return ".".join(value.strip().split(".")[:2])
    return None
