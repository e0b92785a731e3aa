"""Files whose content follows their changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from rest.security.reloading_file import ReloadingFile


class SlowFile(ReloadingFile[str]):
    """Once, another thread that is faster sees a later change of the file while this one looks at it."""

    faster: Callable[[], None] | None = None

    def _stat(self) -> tuple[int, int, int] | None:
        found, faster, self.faster = super()._stat(), self.faster, None
        if faster is not None:
            faster()
        return found


def test_thread_that_saw_an_earlier_change_does_not_load_the_file_again(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("1")
    parsed: list[str] = []

    def parse(text: str) -> str:
        parsed.append(text)
        return text

    file = SlowFile(str(path), "key", parse)
    path.write_text("22")

    def change_again() -> None:
        path.write_text("333")
        assert file.content() == "333"

    file.faster = change_again
    assert file.content() == "333"
    assert file.content() == "333"
    assert (parsed, file.version) == (["1", "333"], 1)
