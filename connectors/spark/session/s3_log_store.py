"""The log store with which several JVMs can commit to a Delta table on S3: a Java class, compiled where Spark runs."""

from __future__ import annotations

import hashlib
import logging
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from connect.cache import cache_dir
from connect.errors import ConnectError
from connectors.spark.errors import root_cause

log = logging.getLogger(__name__)

LOG_STORE = "sluice.spark.S3ConditionalLogStore"
_SOURCE = Path(__file__).with_name("S3ConditionalLogStore.java")


def install_log_store(session: Any) -> Path:
    """Makes the class known to the JVM of a session, once; returns its JAR, which is compiled if it does not exist yet.

    Raises ConnectError when Spark lacks the JARs for S3.
    """
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    jar = cache_dir() / f"sluice-s3-log-store-{hashlib.sha256(_SOURCE.read_bytes()).hexdigest()[:12]}.jar"
    if not jar.is_file():
        _write_jar(jar, _compile(jvm, loader))
    if not _is_known(jvm, loader):
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        if not session.sparkContext.master.startswith("local"):
            session._jsc.addJar(str(jar))  # VACUUM lists files in the executors, with the log store
    return jar


def _is_known(jvm: Any, loader: Any) -> bool:
    return loader.getResource(LOG_STORE.replace(".", "/") + ".class") is not None


def _compile(jvm: Any, loader: Any) -> dict[str, bytes]:
    """Compiles the class with Janino, which Spark brings: a JRE has no compiler."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    try:
        compiler.cook(_SOURCE.read_text(encoding="utf-8"))
    except Exception as e:
        thrown = getattr(e, "java_exception", None)
        cause = root_cause(str(thrown.toString()) if thrown is not None else str(e))
        raise ConnectError(
            f"Spark lacks the JARs for S3 ({cause}): run 'sluice setup --s3' and restart the worker, or see S3 in docs/spark.md"
        ) from e
    found = compiler.getBytecodes()
    return {str(name): bytes(found[name]) for name in found}


def _write_jar(jar: Path, classes: dict[str, bytes]) -> None:
    """Writes the JAR under a name of its own first: other processes may do the same."""
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".log-store-", dir=jar.parent) as work:
            draft = Path(work) / jar.name
            with zipfile.ZipFile(draft, "w") as archive:
                for name, code in sorted(classes.items()):
                    archive.writestr(name.replace(".", "/") + ".class", code)
            draft.replace(jar)
    except OSError as e:
        raise ConnectError(f"the JAR {jar} cannot be written: {e.strerror}; set SLUICE_CACHE_DIR to another directory") from e
    log.info("Compiled Delta's log store for S3 into %s", jar)
