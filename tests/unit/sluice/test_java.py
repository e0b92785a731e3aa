"""Finding and installing Java."""

from __future__ import annotations

from pathlib import Path

import pytest

from connect.errors import ConfigError
from sluice.embedded import java


def fake_java(home: Path, banner: str) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho '{banner}' >&2\n", encoding="utf-8")
    executable.chmod(0o755)
    return executable


@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without Java or package manager, but with the folders a shell script needs."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(java, "_USUAL_HOMES", (str(tmp_path / "jvm" / "*"),))
    return tmp_path


@pytest.mark.parametrize(
    ("banner", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('openjdk version "21" 2023-09-19', 21),
        ('java version "1.8.0_402"', 8),
        ('openjdk version "25-ea" 2025-09-16', 25),
        ("nothing like it", None),
    ],
)
def test_version_is_read_from_the_banner(tmp_path: Path, banner: str, version: int | None) -> None:
    assert java.version_of(fake_java(tmp_path, banner)) == version


def test_java_home_comes_first(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare_machine, 'openjdk version "21.0.1"')
    chosen = fake_java(bare_machine / "mine", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "mine"))
    assert java.find_java() == java.Java(chosen, 17)


def test_old_java_home_is_skipped(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(bare_machine / "old", 'java version "1.8.0_402"')
    usual = fake_java(bare_machine / "jvm" / "java-21", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(bare_machine / "old"))
    found = java.find_java()
    assert found is not None
    assert (found.executable, found.home) == (usual, bare_machine / "jvm" / "java-21")


def test_links_are_resolved_to_the_real_home(bare_machine: Path) -> None:
    real = fake_java(bare_machine / "real", 'openjdk version "17.0.1"')
    (bare_machine / "bin").mkdir()
    (bare_machine / "bin" / "java").symlink_to(real)
    found = java.find_java()
    assert found is not None
    assert found.home == bare_machine / "real"


def test_missing_java_and_package_manager_are_reported_with_a_fix(bare_machine: Path) -> None:
    with pytest.raises(ConfigError, match=r"Java 17 or later was not found, and neither was a known package manager.*JAVA_HOME"):
        java.ensure_java()


def test_java_is_installed_by_the_package_manager(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = bare_machine / "bin"
    tools.mkdir()
    home = bare_machine / "jvm" / "java-17"
    apt = tools / "apt-get"
    apt.write_text(
        f'#!/bin/sh\necho "$@" >> {bare_machine}/calls\n'
        f"[ $1 = install ] || exit 0\n/bin/mkdir -p {home}/bin\n"
        f"printf '#!/bin/sh\\necho openjdk version \\\\\"17.0.9\\\\\"\\n' > {home}/bin/java\n/bin/chmod +x {home}/bin/java\n",
        encoding="utf-8",
    )
    apt.chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    said: list[str] = []
    assert java.ensure_java(said.append).version == 17
    assert said == ["Java 17 was not found: installing it with apt-get"]
    assert (bare_machine / "calls").read_text(encoding="utf-8").splitlines() == [
        "update -qq",
        "install -y -qq --no-install-recommends openjdk-17-jre-headless",
    ]


def test_output_of_a_failing_package_manager_is_reported(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = bare_machine / "bin"
    tools.mkdir()
    (tools / "dnf").write_text("#!/bin/sh\necho 'no such mirror' >&2\nexit 1\n", encoding="utf-8")
    (tools / "dnf").chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(ConfigError, match=r"(?s)exit code 1:\nno such mirror\n.*sudo dnf install"):
        java.ensure_java()


def test_command_to_run_is_reported_without_root_and_sudo(bare_machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = bare_machine / "bin"
    tools.mkdir()
    (tools / "apt-get").write_text("#!/bin/sh\nexit 0\n", encoding="utf-8")
    (tools / "apt-get").chmod(0o755)
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(ConfigError, match=r"needs root; install it with 'sudo apt-get install .*openjdk-17-jre-headless'"):
        java.ensure_java()
