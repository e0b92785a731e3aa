"""Programs from archives, unpacked once into the user's cache."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from connect.errors import ConnectError
from sluice.embedded import jars, process
from sluice.embedded.directories import cache_dir
from sluice.embedded.jar_sets import JarSet

_TIMEOUT_S = 120.0


def ensure_unpacked(wanted: JarSet, folder_name: str, program: str, unpack: Callable[[Path, Path], None]) -> Path:
    """Returns the directory of a program; fetches and unpacks its archive if necessary.

    ``wanted`` is the set of the archive alone; ``unpack(archive, folder)`` fills the new ``folder``, which must then contain the
    file ``program``. An atomic rename publishes the complete directory. Safe to call from several processes: one of them unpacks.
    Raises `ConnectError` when the archive has no such program, and what `jars.ensure_jars` raises.
    """
    folder = cache_dir() / folder_name
    if (folder / program).is_file():
        return folder
    (archive,) = jars.ensure_jars(wanted)
    busy = f"another process has been unpacking {wanted.purpose} for {_TIMEOUT_S:g} s; see {folder.parent}"
    with process.exclusive(folder.parent / f".{folder.name}.lock", _TIMEOUT_S, busy):
        if not (folder / program).is_file():
            with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
                draft = Path(work) / "program"
                draft.mkdir()
                unpack(archive, draft)
                if not (draft / program).is_file():
                    raise ConnectError(f"there is no {program} in {archive}; remove it and try again")
                draft.rename(folder)
    return folder
