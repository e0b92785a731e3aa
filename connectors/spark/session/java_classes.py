"""Java classes of our own in Spark's JVM: compiled where Spark runs, because they need its JARs and a JRE has no compiler."""

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
from connectors.spark.masters import is_local

log = logging.getLogger(__name__)


def install_class(session: Any, name: str, source: Path, purpose: str, remedy: str) -> Path:
    """Makes the class ``name`` known to the JVM of a session, once; returns its JAR, which is compiled if it does not exist yet.

    Raises ConnectError with the remedy when Spark lacks JARs that the class needs; ``purpose`` is what they are for.
    """
    jvm = session._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    slug = name.rpartition(".")[2].lower()
    jar = cache_dir() / f"sluice-{slug}-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}.jar"
    if not jar.is_file():
        _write_jar(jar, _compile(jvm, loader, source, purpose, remedy))
    if loader.getResource(name.replace(".", "/") + ".class") is None:
        loader.addURL(jvm.java.io.File(str(jar)).toURI().toURL())
        if not is_local(session.sparkContext.master):
            session._jsc.addJar(str(jar))
    return jar


def _compile(jvm: Any, loader: Any, source: Path, purpose: str, remedy: str) -> dict[str, bytes]:
    """Compiles the class with Janino, which Spark brings."""
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    try:
        compiler.cook(source.read_text(encoding="utf-8"))
    except Exception as e:
        thrown = getattr(e, "java_exception", None)
        cause = root_cause(str(thrown.toString()) if thrown is not None else str(e))
        raise ConnectError(f"Spark lacks the JARs for {purpose} ({cause}): {remedy}") from e
    found = compiler.getBytecodes()
    return {str(name): bytes(found[name]) for name in found}


def _write_jar(jar: Path, classes: dict[str, bytes]) -> None:
    """Writes the JAR under a name of its own first: other processes may do the same."""
    try:
        jar.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".classes-", dir=jar.parent) as work:
            draft = Path(work) / jar.name
            with zipfile.ZipFile(draft, "w") as archive:
                for name, code in sorted(classes.items()):
                    archive.writestr(name.replace(".", "/") + ".class", code)
            draft.replace(jar)
    except OSError as e:
        raise ConnectError(f"the JAR {jar} cannot be written: {e.strerror}; set SLUICE_CACHE_DIR to another directory") from e
    log.info("Compiled %s", jar)
