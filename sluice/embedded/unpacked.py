"""Programs that come as an archive: unpacked once into the user's cache, then plain files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from connect.errors import ConnectError
from sluice.embedded import jars, locations, process
from sluice.embedded.jarsets import JarSet

_TIMEOUT_S = 120.0


def unpacked(wanted: JarSet, folder_name: str, program: str, unpack: Callable[[Path, Path], None]) -> Path:
    """The folder of a program, unpacked now unless it was, and fetched now unless its archive is here.

    ``wanted`` holds the archive alone; ``unpack(archive, folder)`` fills the new ``folder``, in which the file ``program`` must
    then be. The folder appears in the cache by one rename when it is complete. Safe to call from many processes at once: one of
    them unpacks. Raises `ConnectError` when the archive has no such program, and what `jars.ensure_jars` raises.
    """
    folder = locations.cache_dir() / folder_name
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
