"""A network namespace with one cable to this machine, for workers that are to lose their network (Linux, root)."""

from __future__ import annotations

import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.worker_process import Kind, Launch


@dataclass(frozen=True, slots=True)
class Namespace:
    name: str
    near: str
    """This machine's address on the cable."""
    far: str
    """The address in the namespace."""
    cable: str

    def cut(self) -> None:
        """Nothing goes through any more, and nobody is told."""
        _ip("link", "set", self.cable, "down")

    def mend(self) -> None:
        _ip("link", "set", self.cable, "up")

    def kind(self) -> Kind:
        """Sluice's worker in this namespace."""

        def launch(files: Sequence[Path], log: Path) -> Launch:
            return Launch([_program(), "netns", "exec", self.name, sys.executable, "-m", "sluice.run.distributed", *files])

        return Kind("Sluice in a namespace", launch)


class NotAllowedError(Exception):
    """This machine lets nobody make namespaces, or not us; the message is what it says."""


@contextmanager
def namespace() -> Iterator[Namespace]:
    """Raises NotAllowedError where the machine refuses it."""
    tag = uuid.uuid4().hex[:8]
    subnet = f"10.{int(tag[:2], 16)}.{int(tag[2:4], 16)}"
    made = Namespace(f"sluice-{tag}", f"{subnet}.1", f"{subnet}.2", f"sl{tag}a")
    far_cable = f"sl{tag}b"
    try:
        _ip("netns", "add", made.name)
        try:
            _ip("link", "add", made.cable, "type", "veth", "peer", "name", far_cable, "netns", made.name)
            _ip("address", "add", f"{made.near}/30", "dev", made.cable)
            _ip("-n", made.name, "address", "add", f"{made.far}/30", "dev", far_cable)
            _ip("link", "set", made.cable, "up")
            for link in (far_cable, "lo"):
                _ip("-n", made.name, "link", "set", link, "up")
            yield made
        finally:
            with suppress(NotAllowedError):
                _ip("link", "delete", made.cable)
            _ip("netns", "delete", made.name)
    except FileNotFoundError as e:
        raise NotAllowedError("there is no program ip") from e


def _program() -> str:
    found = shutil.which("ip")
    assert found is not None
    return found


def _ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise NotAllowedError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
