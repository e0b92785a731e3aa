"""``allowed.paths``: files outside of it are not opened, whatever links and ``..`` their path contains."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect import ConfigError
from connect.paths import AllowedPath, PathRules, install_path_rules, local_path
from connectors.file.sink import FileStreamSink, FileStreamSinkTask
from connectors.file.source import FileStreamSource, _open_file
from connectors.jdbc.database import ConnectionSettings, Database
from connectors.jdbc.urls.connection_url import parse_connection_url
from worker.config.worker_config import WorkerConfig


@pytest.fixture
def inside(tmp_path: Path) -> Iterator[Path]:
    """A directory that the rules of this process allow, beside one that they do not."""
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out/secret").write_text("s")
    install_path_rules(PathRules.of([str(tmp_path / "in")]))
    yield tmp_path / "in"
    install_path_rules(PathRules())


def test_without_the_key_every_path_is_allowed() -> None:
    worker = {"key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "/nowhere/offsets"}
    assert WorkerConfig.standalone(worker).path_rules.allows("/etc/passwd")
    with pytest.raises(ConfigError, match=r"Invalid value data for configuration allowed.paths: the path is not absolute"):
        WorkerConfig.standalone({**worker, "allowed.paths": "/srv,data"})


def test_links_and_parents_do_not_lead_out(inside: Path) -> None:
    rules = PathRules.of([str(inside)])
    os.symlink(inside.parent / "out", inside / "link")
    (inside / "own").write_text("x")
    os.symlink(inside / "own", inside / "alias")
    assert rules.allows(inside / "own")
    assert rules.allows(inside / "alias")
    assert rules.allows(inside / "not/yet/there")
    for path in ("link/secret", "../out/secret", "../inner", "../in-other/x"):
        assert not rules.allows(inside / path)
    assert not rules.allows("relative")
    assert not rules.allows(f"http://x/..{inside.parent}/out/secret")


def test_file_connectors_refuse_other_files_when_validated_and_when_started(inside: Path) -> None:
    outside = str(inside.parent / "out/secret")
    values = {value.name: value for value in FileStreamSource().config_def().validate({"file": outside, "topic": "t"})}
    assert "allowed.paths" in values["file"].errors[0]
    with pytest.raises(ConfigError, match="is not allowed on this worker"):
        FileStreamSource().start({"file": outside, "topic": "t"})
    with pytest.raises(ConfigError, match="is not allowed on this worker"):
        FileStreamSink().start({"file": str(inside.parent / "out/new")})
    assert not (inside.parent / "out/new").exists()
    FileStreamSource().start({"file": str(inside / "own"), "topic": "t"})


def test_a_link_that_changes_after_the_check_is_not_read(inside: Path) -> None:
    os.symlink(inside.parent / "out/secret", inside / "swapped")
    with pytest.raises(ConfigError, match="secret is not allowed"):
        _open_file(str(inside / "swapped"))
    with pytest.raises(ConfigError):
        FileStreamSinkTask().start({"file": str(inside / "swapped")})


def test_databases_in_files_stay_inside_and_open_no_other_file(inside: Path) -> None:
    for kind in ("sqlite", "duckdb"):
        target = parse_connection_url(f"jdbc:{kind}:{inside.parent}/out/db", None, None, {})
        with pytest.raises(ConfigError, match="is not allowed on this worker"):
            Database(ConnectionSettings(target))
    for kind, statement in (
        ("sqlite", f"ATTACH '{inside.parent}/out/other' AS other"),
        ("duckdb", f"SELECT * FROM read_text('{inside.parent}/out/secret')"),
    ):
        database = Database(
            ConnectionSettings(parse_connection_url(f"jdbc:{kind}:{inside}/{kind}.db", None, None, {}), attempts=1)
        )
        with database._engine.connect() as connection, pytest.raises(Exception, match=r"too many attached|disabled"):
            connection.exec_driver_sql(statement)
        database.close()


def test_table_locations_are_paths_unless_they_have_a_scheme(inside: Path) -> None:
    assert local_path("file:///a%20b") == "/a b"
    assert local_path("FILE:/a") == "/a"
    assert local_path("s3a://bucket/x") is None
    with pytest.raises(ConfigError, match="is not allowed"):
        AllowedPath()("table.location", local_path(f"file:{inside.parent}/out"))
