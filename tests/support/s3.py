"""An S3 server for tests: moto, in its own process."""

from __future__ import annotations

import os
import subprocess
import sys
import uuid
from collections.abc import Mapping

from pyarrow import fs

_PROGRAM = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""


class EmbeddedS3:
    """A server without data; it ends with this process."""

    def __init__(self) -> None:
        self._child = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONWARNINGS": "ignore"},
        )
        assert self._child.stdout is not None
        self.endpoint = f"http://127.0.0.1:{int(self._child.stdout.readline())}"

    @property
    def environment(self) -> Mapping[str, str]:
        """The standard variables with which clients find the server."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def create_bucket(self) -> str:
        """Creates an empty bucket and returns its name."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        client = fs.S3FileSystem(
            access_key="test",
            secret_key="test",
            region="us-east-1",
            scheme="http",
            endpoint_override=self.endpoint.removeprefix("http://"),
            allow_bucket_creation=True,
        )
        client.create_dir(name)
        return name

    def stop(self) -> None:
        """Stops the server and waits for its end."""
        self._child.communicate()
