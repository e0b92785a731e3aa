"""An embedded schema registry: Apicurio Registry in memory, on the loopback interface, with Confluent's API.

For a first run and tests. What is registered is gone when it ends. The data folder holds ``registry.log`` and ``registry.pid``.
"""

from __future__ import annotations

import http.client
import os
import tarfile
from pathlib import Path

from sluice.embedded import locations
from sluice.embedded.jarsets import REGISTRY, REGISTRY_VERSION
from sluice.embedded.java import ensure_java
from sluice.embedded.server import EmbeddedServer
from sluice.embedded.unpacked import unpacked

_API = "/apis/ccompat/v7"
_RUNNER = f"apicurio-registry-app-{REGISTRY_VERSION}-runner.jar"

# Measured on two cores: answers after 3.4 s. The first compiler alone starts it sooner than both.
_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class EmbeddedRegistry(EmbeddedServer):
    """One registry over ``data_dir``.

    ``port`` None means the port used before by this object, or a free one. With ``dies_with_parent`` the registry ends when this
    process does (Linux).
    """

    name, stem = "the schema registry", "registry"

    def __init__(self, data_dir: Path | str, *, port: int | None = None, dies_with_parent: bool = False) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._port = port

    @property
    def _known_port(self) -> int | None:
        return self._port

    @property
    def _wanted_port(self) -> int | None:
        return None

    @property
    def url(self) -> str:
        """What a converter takes as ``schema.registry.url``."""
        return f"http://{locations.LOOPBACK}:{self.port}{_API}"

    def _serves(self, port: int) -> bool:
        connection = http.client.HTTPConnection(self.host, port, timeout=5)
        try:
            connection.request("GET", f"{_API}/subjects")
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _launch(self, timeout_s: float) -> None:
        program = unpacked(REGISTRY, f"apicurio-registry-{REGISTRY_VERSION}", _RUNNER, _unpack)
        if self._port is None:
            self._port = locations.free_ports(1)[0]
        else:
            locations.require_free_port(self._port, self._place, "choose another")
        port = self._port
        settings = (f"-Dquarkus.http.host={locations.LOOPBACK}", f"-Dquarkus.http.port={port}", "-Dapicurio.storage.kind=sql")
        self._process.launch(
            [ensure_java().executable, *_JVM, *settings, "-jar", program / _RUNNER],
            port,
            lambda: self._serves(port),
            timeout_s,
            # Not the caller's QUARKUS_* and APICURIO_* variables, which would change what it does.
            environment={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.data_dir)},
        )


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
