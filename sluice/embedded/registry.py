"""An embedded schema registry: Apicurio Registry in memory, on the loopback interface, with Confluent's API.

For a first run and tests. What is registered is gone when it ends. The data folder holds ``registry.log`` and ``registry.pid``.
"""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import tarfile
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from connect.errors import ConnectError, IllegalStateError
from sluice.embedded import jars, places, process
from sluice.embedded.jarsets import REGISTRY_VERSION
from sluice.embedded.java import ensure_java
from sluice.embedded.server_process import ServerProcess

_API = "/apis/ccompat/v7"
_RUNNER = f"apicurio-registry-app-{REGISTRY_VERSION}-runner.jar"
_UNPACK_TIMEOUT_S = 120.0

# Measured on two cores: answers after 3.4 s. The first compiler alone starts it sooner than both.
_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class EmbeddedRegistry:
    """One registry over ``data_dir``. Objects are handles: a second one on the same folder controls the same registry.

    ``port`` None means the port used before by this object, or a free one. With ``dies_with_parent`` the registry ends when this
    process does (Linux). Not thread-safe.
    """

    def __init__(self, data_dir: Path | str, *, port: int | None = None, dies_with_parent: bool = False) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        self._port = port
        death_signal = signal.SIGKILL if dies_with_parent else None
        self._process = ServerProcess("the schema registry", self.data_dir, "registry", death_signal=death_signal)
        self.log_file = self._process.log_file

    @property
    def pid(self) -> int | None:
        """The registry's process id while it runs, else None."""
        server = self._process.running
        return server.pid if server else None

    @property
    def running(self) -> bool:
        return self._process.running is not None

    @property
    def port(self) -> int:
        """The HTTP port: of the running registry, else the one it will have."""
        if server := self._process.running:
            return server.port
        if self._port is None:
            raise IllegalStateError(f"the schema registry in {self.data_dir} has no port before its first start")
        return self._port

    @property
    def url(self) -> str:
        """What a converter takes as ``schema.registry.url``."""
        return f"http://{places.LOOPBACK}:{self.port}{_API}"

    def answers(self) -> bool:
        return self.running and _answers(self.port)

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the registry and return when it serves requests. Does nothing when it runs already.

        Raises `ConfigError` when the port is taken, `ConnectError` with the end of the log when it does not come up. Nothing is
        left running after an error.
        """
        busy = f"another process is starting the schema registry in {self.data_dir}"
        with process.exclusive(self.data_dir / ".lock", timeout_s, busy):
            if self._process.answers_already(None, self.answers, timeout_s):
                return
            program = _unpacked()
            if self._port is None:
                self._port = places.free_ports(1)[0]
            else:
                places.require_free_port(self._port, f"the schema registry in {self.data_dir}", "choose another")
            self._launch(program, self._port, timeout_s)

    def stop(self, grace_s: float = 20.0) -> bool:
        """Stop the registry: SIGTERM, then SIGKILL after ``grace_s``. True if one was running. It is gone on return."""
        return self._process.end(signal.SIGTERM, grace_s)

    def kill(self) -> bool:
        """End the registry by SIGKILL."""
        return self._process.end(signal.SIGKILL, 10.0)

    def remove(self) -> None:
        """End the registry and delete its data folder."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _launch(self, program: Path, port: int, timeout_s: float) -> None:
        settings = (f"-Dquarkus.http.host={places.LOOPBACK}", f"-Dquarkus.http.port={port}", "-Dapicurio.storage.kind=sql")
        self._process.launch(
            [ensure_java().executable, *_JVM, *settings, "-jar", program / _RUNNER],
            port,
            lambda: _answers(port),
            timeout_s,
            # Not the caller's QUARKUS_* and APICURIO_* variables, which would change what it does.
            environment={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.data_dir)},
        )


def _unpacked() -> Path:
    """The folder of the program, unpacked now unless it was. It appears by one rename when it is complete."""
    folder = places.cache_dir() / f"apicurio-registry-{REGISTRY_VERSION}"
    if (folder / _RUNNER).is_file():
        return folder
    (archive,) = jars.ensure_jars("registry")
    busy = f"another process has been unpacking the schema registry for {_UNPACK_TIMEOUT_S:g} s; see {folder.parent}"
    with process.exclusive(folder.parent / f".{folder.name}.lock", _UNPACK_TIMEOUT_S, busy):
        if not (folder / _RUNNER).is_file():
            with tempfile.TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as work:
                with tarfile.open(archive) as packed:
                    packed.extractall(Path(work) / "program", filter="data")
                if not (Path(work) / "program" / _RUNNER).is_file():
                    raise ConnectError(f"there is no {_RUNNER} in {archive}; remove it and try again")
                (Path(work) / "program").rename(folder)
    return folder


def _answers(port: int) -> bool:
    connection = http.client.HTTPConnection(places.LOOPBACK, port, timeout=5)
    try:
        connection.request("GET", f"{_API}/subjects")
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
