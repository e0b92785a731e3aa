"""Writes files that readers see whole or not at all, as the writers of tables do."""

from __future__ import annotations

from pathlib import Path


def write_at_once(file: Path, text: str) -> None:
    draft = file.with_name(f".{file.name}.draft")
    draft.write_text(text)
    draft.rename(file)
