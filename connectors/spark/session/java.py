"""Finds the Java that Spark runs on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from connect.errors import ConfigError

MINIMUM_JAVA = 17


def require_java() -> Path:
    """Returns the ``java`` that Spark can use. Raises ConfigError when there is none."""
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).is_file():
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "no java on the PATH, and JAVA_HOME is not set"
        raise ConfigError(f"The Spark sink needs Java {MINIMUM_JAVA} or later: {where}. Install a JRE, or point JAVA_HOME to one")
    version = _read_version(java)
    if version is None or version < MINIMUM_JAVA:
        raise ConfigError(
            f"The Spark sink needs Java {MINIMUM_JAVA} or later, and {java} is {version or 'an unknown version'}; "
            "point JAVA_HOME to a newer one"
        )
    return Path(java)


def _read_version(java: str) -> int | None:
    try:
        text = (Path(java).resolve().parent.parent / "release").read_text(encoding="utf-8")
        found = re.search(r'^JAVA_VERSION="(\d+)', text, re.MULTILINE)
    except OSError:
        found = None
    if found is None:  # not an installation as Java's own: starting it takes a tenth of a second
        said = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    return int(found.group(1)) if found else None
