"""An embedded schema registry for tests: Apicurio Registry on the loopback interface, with Confluent's API.

Schemas are in memory and lost when it stops. The data directory contains ``registry.log`` and ``registry.pid``.
"""

from __future__ import annotations

import http.client
import os
import tarfile
from pathlib import Path

from sluice.embedded.java import ensure_java
from sluice.embedded.ports import LOOPBACK, free_ports, require_free_port
from sluice.embedded.server import EmbeddedServer
from sluice.embedded.unpacked import ensure_unpacked
from tests.support.jar_sets import REGISTRY, REGISTRY_VERSION

_API = "/apis/ccompat/v7"
_RUNNER = f"apicurio-registry-app-{REGISTRY_VERSION}-runner.jar"

# Measured on two cores: ready after 3.4 s. The first compiler alone starts faster than both.
_JVM = ("-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Djava.awt.headless=true")


class EmbeddedRegistry(EmbeddedServer):
    """One registry with the directory ``data_dir``.

    ``port`` None means this object's previous port, or a free one. With ``dies_with_parent`` the registry is killed when this
    process ends (Linux).
    """

    name, stem = "the schema registry", "registry"

    def __init__(self, data_dir: Path | str, *, port: int | None = None, dies_with_parent: bool = False) -> None:
        super().__init__(data_dir, dies_with_parent=dies_with_parent)
        self._port = port

    @property
    def _known_port(self) -> int | None:
        return self._port

    @property
    def _requested_port(self) -> int | None:
        return None

    @property
    def url(self) -> str:
        """The value for ``schema.registry.url``."""
        return f"http://{LOOPBACK}:{self.port}{_API}"

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
        program = ensure_program()
        if self._port is None:
            self._port = free_ports(1)[0]
        else:
            require_free_port(self._port, self._label, "choose another")
        port = self._port
        settings = (f"-Dquarkus.http.host={LOOPBACK}", f"-Dquarkus.http.port={port}", "-Dapicurio.storage.kind=sql")
        self._process.launch(
            [ensure_java().executable, *_JVM, *settings, "-jar", program / _RUNNER],
            port,
            lambda: self._serves(port),
            timeout_s,
            # Without the caller's QUARKUS_* and APICURIO_* variables, which would change its settings.
            environment={"PATH": os.environ.get("PATH", os.defpath), "HOME": str(self.data_dir)},
        )


def ensure_program() -> Path:
    """Returns the directory of the registry's program, fetched and unpacked once."""
    return ensure_unpacked(REGISTRY, f"apicurio-registry-{REGISTRY_VERSION}", _RUNNER, _unpack)


def _unpack(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
