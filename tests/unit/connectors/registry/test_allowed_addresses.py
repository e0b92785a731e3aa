"""Schema registries at addresses that the worker denies get no request, also not by a redirect."""

from __future__ import annotations

import socket
import threading

import pytest

from connect import ConfigError
from connectors.registry.client import SchemaRegistry
from connectors.registry.config import RegistryConfig, parse_registry_config, registry_config_def
from tests.support.waiting import WAIT_S

METADATA = "169.254.169.254"


def config(url: str) -> RegistryConfig:
    return parse_registry_config(registry_config_def().parse({"schema.registry.url": url, "converter.type": "value"}), False)


def test_schema_registry_and_its_redirects() -> None:
    registry = SchemaRegistry(config(f"http://{METADATA}"))
    with pytest.raises(ConfigError, match="not allowed on this worker"):
        registry.schema(1)
    registry.close()
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)

        def redirect() -> None:
            link, _ = server.accept()
            with link:
                link.recv(65536)
                link.sendall(f"HTTP/1.1 302 Found\r\nLocation: http://{METADATA}/latest\r\nContent-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=redirect)
        thread.start()
        registry = SchemaRegistry(config(f"http://localhost:{server.getsockname()[1]}"))
        with pytest.raises(Exception, match=r"HTTP 302|invalid response"):
            registry.schema(1)
        thread.join(WAIT_S)
        registry.close()
