"""How an executor's process is started: with which Python, which paths, and what it inherits."""

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

# Nothing of a configuration is told this way: command lines and environments can be read by others.
_BEGIN_HERE = "import sys; sys.path[:] = sys.argv[5:]"
_BEGIN_IN_ENVIRONMENT = "import sys; sys.path += [path for path in sys.argv[5:] if path not in sys.path]"
_MAIN = "from worker.executors.child import main; main()"
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that was started."""

    popen: subprocess.Popen[bytes]
    connection: socket.socket
    stacks: int
    """Descriptor of what the process writes its stacks to. The caller closes it."""


def launch(key: str, environment: Path | None, *, with_crash_points: bool) -> Launched:
    """Starts a process; ``key`` is what it is called in lists of processes. In a virtual environment its own packages win over
    the worker's, which come after them.

    Call it on a thread that lives as long as the worker: the kernel ends the process together with this thread. Raises OSError.
    """
    ours, theirs = socket.socketpair()
    stacks = os.memfd_create("sluice-stacks")
    if environment is None:
        python, program, paths = sys.executable, f"{_BEGIN_HERE}; {_MAIN}", sys.path
    else:
        python, program, paths = str(environment / "bin" / "python"), f"{_BEGIN_IN_ENVIRONMENT}; {_MAIN}", _library_paths()
    variables = dict(os.environ)
    if not with_crash_points:
        variables.pop(crash_points.VARIABLE, None)
    # Until the process ignores them itself; it inherits what is blocked.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        popen = subprocess.Popen(
            [python, "-P", "-c", program, str(theirs.fileno()), str(os.getpid()), str(stacks), key, *paths],
            stdin=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), stacks),
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
    """Where this process has its packages from, without Python's own library: the environment has that itself."""
    own = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}
    return [str(Path(path).absolute()) for path in sys.path if path not in own and not path.endswith((".zip", "lib-dynload"))]
