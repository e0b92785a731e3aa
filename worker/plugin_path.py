"""``plugin.path``: folders in which Python looks for connectors besides what is installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path


def extend_python_path(entries: Sequence[str]) -> list[str]:
    """Puts each folder at the end of ``sys.path``, so that nothing in it hides what is installed.

    Returns a sentence for each entry that cannot be used. Call it before plugins are looked for.
    """
    unusable = []
    for entry in entries:
        folder = Path(entry).expanduser().absolute()
        if not folder.is_dir():
            unusable.append(f"plugin.path: {entry} is no folder and is left out")
        elif (folder / "pyvenv.cfg").is_file():
            unusable.append(
                f"plugin.path: {entry} is a virtual environment, which this release does not use; give its site-packages folder"
            )
        elif str(folder) not in sys.path:
            sys.path.append(str(folder))
            importlib.invalidate_caches()
    return unusable
