"""Runs a worker of Apache Kafka Connect 4.3.1 as a process.

Measured on two cores: ready after 3.1 s, or 1.3 s with the class archive that the first graceful shutdown leaves in the cache.
About 200 MB. Exits within 3 s of SIGTERM.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from sluice.embedded import jars
from sluice.embedded.directories import cache_dir
from sluice.embedded.java import Java, ensure_java
from tests.cluster.worker_process import Kind, Launch, WorkerProcess
from tests.interop.connect_jars import CONNECT

_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")

_LOG4J = """<Configuration status="ERROR">
  <Appenders>
    <File name="file" fileName="{log}"><PatternLayout pattern="[%d] %p %X{{connector.context}}%m (%c:%L)%n"/></File>
  </Appenders>
  <Loggers><Root level="INFO"><AppenderRef ref="file"/></Root></Loggers>
</Configuration>
"""


def _launch(main_class: str, files: Sequence[Path], log: Path) -> Launch:
    java = ensure_java()
    class_path = jars.class_path(jars.ensure_jars(CONNECT))
    logging = log.with_suffix(".log4j2.xml")
    logging.write_text(_LOG4J.format(log=log), encoding="utf-8")
    archive = _archive(java)
    # The JVM writes the archive while it exits and may be killed meanwhile: write to a file of this run, then rename it.
    draft = archive.with_name(f".{archive.stem}-{os.getpid()}-{log.stem}.jsa")
    sharing = [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive.is_file() else [f"-XX:ArchiveClassesAtExit={draft}"]

    def stopped() -> None:
        if draft.is_file():
            draft.replace(archive)

    command: list[str | Path] = [
        java.executable, *_JVM, *sharing, "-Xlog:disable", "-Xlog:all=error:stderr",
        f"-Dlog4j2.configurationFile={logging}", "-cp", class_path, f"org.apache.kafka.connect.cli.{main_class}", *files,
    ]  # fmt: skip
    return Launch(command, stopped=stopped)


def _archive(java: Java) -> Path:
    release = java.home / "release"
    build = release.read_bytes() if release.is_file() else str(java.executable).encode()
    digest = hashlib.sha256(build + str(jars.folder_of(CONNECT)).encode()).hexdigest()[:12]
    return cache_dir() / f"apache-connect-{java.version}-{digest}.jsa"


# Scanning for plugins takes seconds; all classes that tests use are registered with ServiceLoader. SIGTERM gives exit code 143.
_QUICK = {"plugin.discovery": "service_load"}
APACHE = Kind("Apache", partial(_launch, "ConnectDistributed"), _QUICK, (0, 143))
APACHE_STANDALONE = Kind("Apache standalone", partial(_launch, "ConnectStandalone"), _QUICK, (0, 143))

ApacheWorker = partial(WorkerProcess, APACHE)
