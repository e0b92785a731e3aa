"""Starts an executor process with the right Python, import paths, and inherited descriptors."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from connect import crash_points
from connect.worker_lifetime import WorkerLifetime

# No configuration is passed this way: other users can read command lines and environments.
_USE_WORKER_PATHS = "import sys; sys.path[:] = sys.argv[5:]"
_APPEND_WORKER_PATHS = "import sys; sys.path += [path for path in sys.argv[5:] if path not in sys.path]"
_MAIN = "from worker.executors.child import main; main()"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Launched:
    """A started process."""

    popen: subprocess.Popen[bytes]
    connection: socket.socket
    stacks: int
    """Descriptor of the file that the process writes its stacks to. The caller closes it."""


def launch(key: str, environment: Path | None, *, with_crash_points: bool, lifetime: WorkerLifetime | None = None) -> Launched:
    """Starts a process; ``key`` is its name in process lists. In a virtual environment, its packages take precedence over the
    worker's. ``lifetime`` is for processes that it starts for the whole worker.

    Call it on a thread that lives as long as the worker: the kernel ends the process together with that thread. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    stacks = os.memfd_create("sluice-stacks")
    if environment is None:
        python, program, paths = sys.executable, f"{_USE_WORKER_PATHS}; {_MAIN}", sys.path
    else:
        python, program, paths = str(environment / "bin" / "python"), f"{_APPEND_WORKER_PATHS}; {_MAIN}", _library_paths()
    variables = dict(os.environ)
    if not with_crash_points:
        variables.pop(crash_points.VARIABLE, None)
    inherited = [theirs.fileno(), stacks]
    if lifetime is not None:
        variables |= lifetime.variables()
        inherited.append(lifetime.scope.descriptor)
    # The process inherits blocked signals, until it ignores them itself.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        popen = subprocess.Popen(
            [python, "-P", "-c", program, str(theirs.fileno()), str(os.getpid()), str(stacks), key, *paths],
            stdin=subprocess.DEVNULL,
            pass_fds=inherited,
            env=variables,
        )
    except BaseException:
        ours.close()
        os.close(stacks)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
    return Launched(popen, ours, stacks)


def _library_paths() -> list[str]:
    """The import paths of this process, without Python's standard library, which the environment has itself."""
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return [str(Path(path).absolute()) for path in sys.path if path not in own and not path.endswith((".zip", "lib-dynload"))]
