"""The data files of Delta tables, and their deletion vectors."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from connectors.spark.tables.delta.file_format import DeltaFormat
from connectors.spark.tables.files.live_files import LiveFile, LiveFiles
from connectors.spark.tables.files.row_bitmaps import Rows


class DeltaFiles:
    """Describes the files of actions and reads their deletion vectors."""

    def __init__(self, files: LiveFiles) -> None:
        self.files = files
        self._format = files.format
        self._vectors: dict[str, bytes] = {}

    def forget_vectors(self) -> None:
        """Releases the files of vectors that were read; one usually holds the vectors of one commit."""
        self._vectors.clear()

    def described(self, action: Mapping[str, object]) -> LiveFile:
        """The file of an ``add``, ``remove``, or ``cdc`` action."""
        return self._format.describe(0, {"size": 0, **action})

    def deleted_rows(self, action: Mapping[str, object]) -> Rows:
        """The rows in the deletion vector of an action."""
        vector = self._format.vector(action)
        if vector is None:
            return np.empty(0, np.int64)
        return self._format.read_vector(self.files.files, vector, self._vectors)


def open_files(files: object, folder: str) -> DeltaFiles:
    """The files of the table at ``folder`` of an Arrow file system."""
    return DeltaFiles(LiveFiles(files, DeltaFormat(folder)))
