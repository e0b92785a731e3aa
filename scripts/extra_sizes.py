"""Prints the size of the base and of each extra in MB (10^6 bytes), as docs/installation.md states them.

A size is that of the files of all distributions that an extra installs here in addition to the base, without compiled Python. Run
it in an environment that has ``sluice-connect[all,dev]``.

Usage: ``python -m scripts.extra_sizes``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from scripts.build_release import BASE, ROOT, read_project, required_distributions

OWN = ("connect", "connectors", "rest", "sluice", "worker")


def measure(project: Mapping[str, Any]) -> dict[str, int]:
    """Returns the size of the base and of each extra but ``dev``, in MB. Raises ReleaseError if one is not installed."""
    base = _by_name(required_distributions(project["dependencies"], project))
    sizes = {BASE: _megabytes(sum(map(_size, base.values())) + _own_size())}
    for extra, requirements in project["optional-dependencies"].items():
        if extra != "dev":
            added = _by_name(required_distributions(requirements, project))
            sizes[extra] = _megabytes(sum(_size(one) for name, one in added.items() if name not in base))
    return sizes


def _by_name(found: Iterable[Distribution]) -> dict[str, Distribution]:
    return {canonicalize_name(one.name): one for one in found}


def _size(one: Distribution) -> int:
    """The bytes of a distribution's files."""
    paths = (Path(str(one.locate_file(file))) for file in one.files or () if file.suffix != ".pyc")
    return sum(path.stat().st_size for path in paths if path.is_file())


def _own_size() -> int:
    files = (path for name in OWN for path in (ROOT / name).rglob("*") if path.suffix != ".pyc" and path.is_file())
    return sum(path.stat().st_size for path in files)


def _megabytes(size: int) -> int:
    return round(size / 1_000_000)


if __name__ == "__main__":
    for extra, size in measure(read_project(ROOT)).items():
        print(f"{extra:<10}{size:>6,} MB")
