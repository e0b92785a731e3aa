"""A class archive for the embedded broker: the JVM maps the broker's classes instead of loading and verifying them.

Measured on two cores: ready in 1.1-1.5 s instead of 2.1, for 1.8 CPU seconds instead of 3.6. Made once by a training run. An
archive that does not fit the Java or the jars is ignored by the JVM, so it can only ever help.
"""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from connect.errors import ConnectError
from sluice.embedded import jars, locations
from sluice.embedded.java import Java


def path_for(java: Java) -> Path:
    """Where the archive for this Java and these jars lies, or would lie."""
    folder = jars.folder_of(jars.jar_set("kafka"))
    # Another build of the same version has other classes, and so another release file; the folder's name carries the jars.
    release = java.home / "release"
    build = release.read_bytes() if release.is_file() else str(java.executable).encode()
    digest = hashlib.sha256(build + str(folder).encode()).hexdigest()[:12]
    return locations.cache_dir() / f"broker-{java.version}-{digest}.jsa"


def present(java: Java) -> bool:
    return path_for(java).is_file()


def options_for(java: Java) -> list[str]:
    """JVM options that use the archive, if there is one. ``-Xlog:disable`` of its warnings: without it nothing is lost."""
    path = path_for(java)
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if path.is_file() else []


def make(java: Java) -> None:
    """Run a broker once, write its classes to the archive. Takes about seven seconds. A failure leaves none, and is no error:
    everything works without."""
    from sluice.embedded.broker import EmbeddedBroker

    target = path_for(java)
    with tempfile.TemporaryDirectory(prefix=".train-", dir=target.parent) as work:
        draft = Path(work) / "classes.jsa"
        trainee = EmbeddedBroker(Path(work) / "broker", dies_with_parent=True, jvm_options=[f"-XX:ArchiveClassesAtExit={draft}"])
        try:
            trainee.start()
            trainee.stop(grace_s=60.0)
        except ConnectError:
            return
        finally:
            trainee.kill()
        if draft.is_file():
            draft.replace(target)
