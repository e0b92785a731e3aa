"""Saves Python processes of executors from reading the directories of PySpark's ZIP files again before each task."""

from __future__ import annotations

import sys
from zipimport import zipimporter


def forget_zip_finders() -> None:
    """Call it in a task: the next one starts a tenth of a second of CPU earlier.

    PySpark invalidates the caches of all finders before a task, because files may have been added. Finders of ZIP files, which
    are PySpark's own, read their directories again then. Python creates a finder again when an import needs it, from the
    directory that it still knows.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]
