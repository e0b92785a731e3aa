"""A worker without authentication loads nothing of it."""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import json, sys
from rest.rest_server import RestServer
from tests.unit.rest.fake_herder import FakeHerder
from worker.config.worker_config import WorkerConfig
server = RestServer.from_config(WorkerConfig.standalone({
    "bootstrap.servers": "x:1", "key.converter": "String", "value.converter": "String", "offset.storage.file.filename": "o",
    "listeners": "http://127.0.0.1:0",
}))
server.start(FakeHerder())
server.stop()
print(json.dumps(sorted(sys.modules)))
"""


def test_worker_without_authentication_loads_no_libraries_for_it() -> None:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=120, check=True)
    loaded = set(json.loads(done.stdout))
    assert "rest.security.access" in loaded
    for name in ("joserfc", "authlib", "yaml", "rest.security.service", "rest.security.middleware", "rest.security.passwords"):
        assert name not in loaded, name
