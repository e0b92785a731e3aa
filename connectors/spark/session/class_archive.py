"""The class data archive (AppCDS) of Spark's JVM: it maps Spark's classes instead of loading and verifying them.

The JVM ignores an archive that does not fit its Java, its JARs, or its options. ``sluice setup`` creates it by running this module.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from connect.cache import cache_dir
from connect.errors import ConnectError

log = logging.getLogger(__name__)

_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def path_for(java: Path, class_path: Sequence[str]) -> Path:
    """The path of the archive for this Java and these JARs, whether or not it exists."""
    home = java.resolve().parent.parent
    # Another build of the same version has other classes and another release file.
    release = home / "release"
    digest = hashlib.sha256(release.read_bytes() if release.is_file() else str(home).encode())
    for path in class_path:
        digest.update(f"\n{path}:".encode())
        try:
            status = os.stat(path)
            digest.update(f"{status.st_size}:{status.st_mtime_ns}".encode())  # what the JVM compares, too
        except OSError:
            continue
    return cache_dir() / f"spark-{digest.hexdigest()[:16]}.jsa"


def options_for(java: Path, class_path: Sequence[str]) -> list[str]:
    """JVM options that use the archive if it exists, without a warning if it does not fit."""
    path = path_for(java, class_path)
    return [f"-XX:SharedArchiveFile={path}", *_QUIET] if path.is_file() else []


def create() -> Path | None:
    """Runs Spark once and archives the classes that it loads, unless there is an archive. Takes about 20 seconds on two cores.

    The archive is optional: returns None when it cannot be created, for example because the directory is read-only.
    """
    from connectors.spark.config import SparkConfig
    from connectors.spark.session.jvm import SparkJvm, class_path
    from connectors.spark.session.settings import plan_launch
    from connectors.spark.session.training import run_typical_work

    plan = plan_launch(SparkConfig("local[2]", "", (), ()))
    target = path_for(Path(plan.java), class_path(plan))
    if target.is_file():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".train-", dir=target.parent) as work:
            draft = Path(work) / "classes.jsa"
            jvm = SparkJvm(plan, options=(f"-XX:ArchiveClassesAtExit={draft}", *_QUIET[1:]))
            try:
                jvm.create_context()
                run_typical_work(jvm, Path(work) / "table")
            finally:
                jvm.stop(timeout_s=120.0)
            if draft.is_file():
                draft.chmod(0o644)
                draft.replace(target)
    except (OSError, ConnectError) as e:
        log.warning("Spark starts slower, because its class archive %s cannot be created: %s", target, e)
    return target if target.is_file() else None


if __name__ == "__main__":
    sys.exit(0 if create() is not None else 1)
