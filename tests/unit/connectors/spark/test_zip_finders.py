"""Imports from ZIP files in the Python processes of executors."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from pathlib import Path

import pytest

from connectors.spark.zip_finders import forget_zip_finders


def test_directory_of_a_zip_file_is_not_read_again_and_its_modules_are_still_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "packages.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped_first.py", "value = 1")
        file.writestr("zipped_second.py", "value = 2")
    monkeypatch.syspath_prepend(archive)
    assert importlib.import_module("zipped_first").value == 1
    read: list[str] = []
    read_directory = zipimport._read_directory  # type: ignore[attr-defined]  # not public, but what takes the time

    def read_and_count(path: str) -> object:
        read.append(path)
        return read_directory(path)

    monkeypatch.setattr(zipimport, "_read_directory", read_and_count)
    importlib.invalidate_caches()
    assert str(archive) in read, "nothing was saved"
    read.clear()
    importlib.import_module("zipped_first")
    forget_zip_finders()
    importlib.invalidate_caches()
    assert importlib.import_module("zipped_second").value == 2
    assert str(archive) not in read
    for name in ("zipped_first", "zipped_second"):
        sys.modules.pop(name)
