"""Suggests the folder that the user probably meant."""

from __future__ import annotations

from pyarrow import fs

from connect.suggestions import did_you_mean


def similar_folder(files: fs.FileSystem, folder: str) -> str:
    """Names the folder beside a missing one that is most similar, after a semicolon; an empty text if there is none."""
    parent, _, name = folder.rpartition("/")
    siblings = files.get_file_info(fs.FileSelector(parent, allow_not_found=True))
    names = [info.base_name for info in siblings if info.type is fs.FileType.Directory and info.base_name != name]
    return did_you_mean(name, names, "; ")
