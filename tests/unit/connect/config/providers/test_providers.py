"""The providers of files, directories and the environment."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import pytest

from connect.config.providers.api import ConfigData, ConfigProvider
from connect.config.providers.directory import DirectoryConfigProvider
from connect.config.providers.environment import EnvVarConfigProvider
from connect.config.providers.file import FileConfigProvider
from connect.errors import ConfigError

P = TypeVar("P", bound=ConfigProvider)


def configured(provider: P, **params: str) -> P:
    provider.configure({key.replace("_", "."): value for key, value in params.items()})
    return provider


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    folder = tmp_path / "secrets"
    folder.mkdir()
    (folder / "db.properties").write_text("user=u\npassword = p\\u00e4ss\n")
    (folder / "key").write_text("-----BEGIN\nabc\n")
    (folder / "sub").mkdir()
    (tmp_path / "outside.properties").write_text("x=1\n")
    return folder


def test_file_provider_returns_the_requested_keys(secrets: Path) -> None:
    provider = configured(FileConfigProvider())
    path = str(secrets / "db.properties")
    assert provider.get(path, {"password", "nope"}) == ConfigData({"password": "päss"}, None, restarts_only_if_changed=True)
    assert provider.get(path).data == {"user": "u", "password": "päss"}
    assert provider.get("", {"password"}).data == {}


def test_directory_provider_returns_whole_files(secrets: Path) -> None:
    provider = configured(DirectoryConfigProvider())
    assert provider.get(str(secrets), {"key", "sub", "nope"}).data == {"key": "-----BEGIN\nabc\n"}
    assert set(provider.get(str(secrets)).data) == {"key", "db.properties"}
    assert provider.get(str(secrets), {"../outside.properties"}).data == {}
    assert provider.get(str(secrets / "key"), {"key"}).data == {}
    assert provider.get(str(secrets / "nope"), {"key"}).data == {}
    assert provider.get("", {"key"}).data == {}


def test_unreadable_file_is_reported(secrets: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        configured(FileConfigProvider()).get(f"{secrets}/nope", {"x"})
    assert caught.value.message == f"Could not read properties from file {secrets}/nope: No such file or directory"
    (secrets / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match=r"Could not read file .*/binary for property binary: it is not UTF-8 at byte 0"):
        configured(DirectoryConfigProvider()).get(str(secrets), {"binary"})


@pytest.mark.parametrize("provider", [FileConfigProvider, DirectoryConfigProvider])
def test_allowed_paths_must_be_absolute_and_exist(provider: type[ConfigProvider], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^Path relative is not absolute$"):
        configured(provider(), allowed_paths="relative")
    with pytest.raises(ConfigError, match=f"^Path {tmp_path}/nope does not exist$"):
        configured(provider(), allowed_paths=f"{tmp_path},{tmp_path}/x/../nope")


def test_nothing_outside_allowed_paths_is_read(secrets: Path, tmp_path: Path) -> None:
    provider = configured(FileConfigProvider(), allowed_paths=f"{tmp_path}/unused/..//secrets,{secrets}")
    assert provider.get(f"{secrets}/db.properties", {"user"}).data == {"user": "u"}
    assert provider.get(f"{secrets}/sub/../db.properties", {"user"}).data == {"user": "u"}
    assert provider.get(f"{secrets}/../outside.properties", {"x"}).data == {}
    # A name that begins with an allowed one is another.
    (tmp_path / "secrets2").write_text("x=1")
    assert provider.get(f"{tmp_path}/secrets2", {"x"}).data == {}
    assert provider.get("secrets/db.properties", {"user"}).data == {}


def test_links_are_followed_only_within_allowed_paths(secrets: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    # As Kubernetes mounts a secret.
    (secrets / "..2026").mkdir()
    (secrets / "..2026" / "db").write_text("pw=1\n")
    (secrets / "..data").symlink_to("..2026")
    (secrets / "db").symlink_to("..data/db")
    (secrets / "out").symlink_to(tmp_path / "outside.properties")
    files = configured(FileConfigProvider(), allowed_paths=str(secrets))
    assert files.get(f"{secrets}/db", {"pw"}).data == {"pw": "1"}
    assert files.get(f"{secrets}/out", {"x"}).data == {}
    assert f"{secrets}/out is a link to {tmp_path}/outside.properties, outside allowed.paths" in caplog.text
    folder = configured(DirectoryConfigProvider(), allowed_paths=str(secrets))
    assert folder.get(str(secrets), {"db"}).data == {"db": "pw=1\n"}
    with pytest.raises(ConfigError, match=r"for property out: it is a link out of allowed.paths"):
        folder.get(str(secrets), {"out"})


def test_values_may_expire(secrets: Path) -> None:
    data = configured(FileConfigProvider(), ttl_ms="5000").get(f"{secrets}/db.properties")
    assert (data.ttl_ms, data.restarts_only_if_changed) == (5000, True)
    assert configured(DirectoryConfigProvider(), ttl_ms="5000").get(str(secrets)).ttl_ms == 5000
    with pytest.raises(ConfigError, match=r"for configuration ttl.ms: Value must be at least 100"):
        configured(FileConfigProvider(), ttl_ms="5")


def test_environment_provider_rejects_paths_and_honors_the_allowlist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_TOKEN", "t")
    monkeypatch.setenv("OTHER", "o")
    everything = configured(EnvVarConfigProvider())
    assert everything.get("", {"APP_TOKEN", "OTHER", "NOT_THERE_AT_ALL"}).data == {"APP_TOKEN": "t", "OTHER": "o"}
    limited = configured(EnvVarConfigProvider(), allowlist_pattern="APP_\\p{Upper}+")
    assert limited.get("").data == {"APP_TOKEN": "t"}
    with pytest.raises(ConfigError, match=r"Path is not supported for EnvVarConfigProvider, invalid value 'p'"):
        everything.get("p", {"OTHER"})
    with pytest.raises(ConfigError, match=r"for configuration allowlist.pattern: Invalid regex: Unclosed group near index 1"):
        configured(EnvVarConfigProvider(), allowlist_pattern="(")


def test_values_are_not_printed() -> None:
    assert "s3cret" not in repr(ConfigData({"k": "s3cret"}))
