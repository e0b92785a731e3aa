"""``plugin.path``: folders in which Python looks for connectors besides what is installed, and virtual environments in which
connectors with packages of their own can run (``task.environment``)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from connect.errors import ConfigError


def extend_python_path(entries: Sequence[str]) -> list[str]:
    """Puts each folder at the end of ``sys.path``, so that nothing in it hides what is installed.

    Returns a sentence for each entry that cannot be used. Call it before plugins are looked for.
    """
    unusable = []
    for entry in entries:
        folder = Path(entry).expanduser().absolute()
        if not folder.is_dir():
            unusable.append(f"plugin.path: {entry} is no folder and is left out")
        elif not _is_environment(folder) and str(folder) not in sys.path:
            sys.path.append(str(folder))
            importlib.invalidate_caches()
    return unusable


def environments_of(entries: Sequence[str]) -> list[Path]:
    """The virtual environments among them. This process finds nothing in them."""
    folders = (Path(entry).expanduser().absolute() for entry in entries)
    return [folder for folder in folders if _is_environment(folder)]


def _is_environment(folder: Path) -> bool:
    return (folder / "pyvenv.cfg").is_file()


def checked_environment(given: str, listed: Sequence[Path]) -> Path:
    """The folder of a virtual environment that ``task.environment`` names. Raises ConfigError when it is none, is not listed in
    the worker's ``plugin.path``, or is for another version of Python."""
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
        raise ConfigError.invalid("task.environment", given, f"it is for Python {version}, and this worker runs on {ours}")
    return folder


def _python_version(environment: Path) -> str | None:
    for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
        key, _, value = line.partition("=")
        if key.strip().lower() in ("version", "version_info"):
            return ".".join(value.strip().split(".")[:2])
    return None
