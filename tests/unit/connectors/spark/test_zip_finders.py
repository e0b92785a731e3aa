"""Imports from ZIP files in the Python processes of executors."""

from __future__ import annotations

import importlib
import io
import sys
import zipfile
from pathlib import Path
from typing import IO

import pytest

from connectors.spark.zip_finders import forget_zip_finders


def test_directory_of_a_zip_file_is_not_read_again_and_its_modules_are_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_first.py", "value = 1")
        file.writestr("zipped_second.py", "value = 2")
        file.writestr("zipped_third.py", "value = 3")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("zipped_first").value == 1
    read: list[str] = []

    def open_and_count(path: str) -> IO[bytes]:
        read.append(path)
        return io.open_code(path)

    monkeypatch.setattr("_io.open_code", open_and_count)
    importlib.invalidate_caches()
    assert str(archive) in read, "nothing was saved"
    read.clear()
    importlib.import_module("zipped_second")
    reads_of_module = len(read)
    read.clear()
    forget_zip_finders()
    importlib.invalidate_caches()
    assert str(archive) not in read
    assert importlib.import_module("zipped_third").value == 3
    assert len(read) == reads_of_module, "of the module, and none of the directory"
    for name in ("zipped_first", "zipped_second", "zipped_third"):
        sys.modules.pop(name)
