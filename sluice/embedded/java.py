"""Finds Java 17 or later, or installs it with the system's package manager."""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from connect.errors import ConfigError

OLDEST = 17

# Where packages and installers put Java.
_USUAL_HOMES = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/java",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation. ``home`` is JAVA_HOME for Spark."""

    executable: Path
    version: int

    @property
    def home(self) -> Path:
        return self.executable.parent.parent


@dataclass(frozen=True, slots=True)
class Installer:
    """A system package manager: its program, the commands to run, and whether they need root."""

    program: str
    commands: tuple[tuple[str, ...], ...]
    needs_root: bool = True


INSTALLERS = (
    Installer(
        "apt-get",
        (("apt-get", "update", "-qq"), ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "openjdk-17-jre-headless")),
    ),
    Installer("dnf", (("dnf", "install", "-y", "-q", "java-17-openjdk-headless"),)),
    Installer("apk", (("apk", "add", "-q", "openjdk17-jre-headless"),)),
    Installer("brew", (("brew", "install", "--quiet", "openjdk@17"),), needs_root=False),
)


def find_java() -> Java | None:
    """Returns the first Java 17 or later: from JAVA_HOME, PATH, or a usual directory (newest first)."""
    for candidate in _candidates():
        version = version_of(candidate)
        if version is not None and version >= OLDEST:
            # Resolved, because /usr/bin/java is a symbolic link and its grandparent is not a Java home.
            return Java(candidate.resolve(), version)
    return None


def _candidates() -> Iterator[Path]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if found := shutil.which("java"):
        yield Path(found)
    for pattern in _USUAL_HOMES:
        for folder in sorted(glob.glob(os.path.expanduser(pattern)), reverse=True):
            yield Path(folder) / "bin" / "java"


def version_of(executable: Path) -> int | None:
    """Returns the feature version (17, 21, ...; 8 for ``1.8.0``) from ``java -version``, or None if it does not run."""
    if not os.access(executable, os.X_OK):
        return None
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    return int(found.group(1)) if found and answer.returncode == 0 else None


def ensure_java(notify: Callable[[str], None] = lambda _: None) -> Java:
    """Returns Java 17 or later; installs it if necessary and possible.

    ``notify`` receives a message before an installation. Raises `ConfigError` with the command to run manually when no package
    manager can be used without a password, or when it failed.
    """
    if java := find_java():
        return java
    installer = next((known for known in INSTALLERS if shutil.which(known.program)), None)
    if installer is None:
        raise ConfigError(
            f"Java {OLDEST} or later was not found, and neither was a known package manager; {_manual_command(None)}"
        )
    prefix = _privilege_prefix(installer)
    if prefix is None:
        raise ConfigError(f"Java {OLDEST} or later was not found, and installing it needs root; {_manual_command(installer)}")
    notify(f"Java {OLDEST} was not found: installing it with {installer.program}")
    for command in installer.commands:
        _run([*prefix, *command], installer)
    if java := find_java():
        return java
    raise ConfigError(
        f"{installer.program} installed Java, but none of version {OLDEST} or later was found; {_manual_command(installer)}"
    )


def _privilege_prefix(installer: Installer) -> list[str] | None:
    """Returns the prefix that gives a command root rights: nothing or sudo; None if sudo would ask for a password."""
    if not installer.needs_root or os.geteuid() == 0:
        return []
    if shutil.which("sudo") is None:
        return None
    asked = subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False)
    return ["sudo", "-n"] if asked.returncode == 0 else None


def _run(command: Sequence[str], installer: Installer) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    if answer.returncode != 0:
        said = "\n".join((answer.stderr or answer.stdout).strip().splitlines()[-5:])
        raise ConfigError(
            f"'{' '.join(command)}' failed with exit code {answer.returncode}:\n{said}\n{_manual_command(installer)}"
        )


def _manual_command(installer: Installer | None) -> str:
    if installer is None:
        how = "macOS: brew install openjdk@17" if sys.platform == "darwin" else "Debian: apt-get install openjdk-17-jre-headless"
        return f"install it ({how}) or set JAVA_HOME to one"
    sudo = "sudo " if installer.needs_root else ""
    return f"install it with '{sudo}{' '.join(installer.commands[-1])}' or set JAVA_HOME to one"
