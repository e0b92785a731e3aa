"""A network namespace that is connected to this machine by a veth pair, to cut a worker off its network (Linux, root)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.cluster.worker_process import Kind, Launch
from tests.support.waiting import WAIT_S


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    host_address: str
    """This machine's address on the link."""
    namespace_address: str
    """The address in the namespace."""
    host_interface: str

    def cut(self) -> None:
        """Drops all packets. No connection is closed."""
        _ip("link", "set", self.host_interface, "down")

    def restore(self) -> None:
        _ip("link", "set", self.host_interface, "up")

    def kind(self) -> Kind:
        """Returns the kind of Sluice workers that run in this namespace."""

        def launch(files: Sequence[Path], log: Path) -> Launch:
            return Launch([_program(), "netns", "exec", self.name, sys.executable, "-m", "sluice.run.distributed", *files])

        return Kind("Sluice in a namespace", launch)


class _NotAllowedError(Exception):
    """The program ``ip`` could not do something. The message has the reason."""


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Creates a namespace and deletes it at the end. Skips the test if that is not allowed: it takes root, and a container may
    forbid it to root, too."""
    tag = uuid.uuid4().hex[:8]
    subnet = f"10.{int(tag[:2], 16)}.{int(tag[2:4], 16)}"
    created = Namespace(f"sluice-{tag}", f"{subnet}.1", f"{subnet}.2", f"sl{tag}a")
    namespace_interface = f"sl{tag}b"
    with ExitStack() as stack:
        try:
            _ip("netns", "add", created.name)
            stack.callback(_delete, created)
            _ip("link", "add", created.host_interface, "type", "veth", "peer", "name", namespace_interface, "netns", created.name)
            _ip("address", "add", f"{created.host_address}/30", "dev", created.host_interface)
            _ip("-n", created.name, "address", "add", f"{created.namespace_address}/30", "dev", namespace_interface)
            _ip("link", "set", created.host_interface, "up")
            for link in (namespace_interface, "lo"):
                _ip("-n", created.name, "link", "set", link, "up")
        except _NotAllowedError as e:
            pytest.skip(f"this machine does not allow network namespaces: {e}")
        yield created


def _delete(created: Namespace) -> None:
    with suppress(_NotAllowedError):
        _ip("link", "delete", created.host_interface)
    _ip("netns", "delete", created.name)


def _program() -> str:
    found = shutil.which("ip")
    assert found is not None
    return found


def _ip(*arguments: str) -> None:
    try:
        done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False)
    except FileNotFoundError as e:
        raise _NotAllowedError("the program ip is not installed") from e
    if done.returncode != 0:
        raise _NotAllowedError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
