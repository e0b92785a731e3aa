"""Runs ``sluice`` in forks of one process that has imported it, because a command takes most of its time to import.

The program ``sluice`` of the folder that :func:`forked_commands` yields passes its arguments, variables, folder, and standard
streams to that process, and ends with the command's exit code.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import json
import os
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

_CLIENT = """\
#!{python} -SE
import json, os, socket, sys

with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
    server.connect({address!r})
    request = json.dumps([sys.argv, os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(server, [request], [0, 1, 2])
    answer = server.recv(1)
sys.exit(answer[0] if answer else "the command ended without an exit code")
"""
_MODULES = ("confluent_kafka.admin", "rest.client", "worker.kafka.admin", "worker.kafka.console")
_MAX_BYTES = 1 << 17


@contextlib.contextmanager
def forked_commands(folder: Path) -> Iterator[Path]:
    """Yields a folder for ``PATH`` while the process runs."""
    address = folder / "socket"
    programs = folder / "bin"
    programs.mkdir()
    client = programs / "sluice"
    client.write_text(_CLIENT.format(python=sys.executable, address=str(address)))
    client.chmod(0o755)
    command = [sys.executable, "-m", __name__, str(address)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=root, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield programs
        server.terminate()


def _serve(address: str) -> None:
    _import_all(Path(address).parent)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as server:
        server.bind(address)
        server.listen()
        print("ready", flush=True)
        while True:
            client, _ = server.accept()
            request, streams, _, _ = socket.recv_fds(client, _MAX_BYTES, 3)
            if os.fork() == 0:
                server.close()
                _run(client, request, streams)
            for one in streams:
                os.close(one)
            client.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG) != (0, 0):
                    pass


def _import_all(folder: Path) -> None:
    """Runs commands that need no server, which import what most commands need."""
    from sluice.cli import COMMANDS
    from sluice.cli.app import build
    from sluice.cli.errors import run

    for name in {command.target.partition(":")[0] for command in COMMANDS.values()} | set(_MODULES):
        importlib.import_module(name)
    connector = folder / "warm.properties"
    connector.write_text("name=a\nconnector.class=FileStreamSink\ntopics=a\nfile=a\n")
    records = folder / "records"
    records.write_text('{"id": 1}\n')
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        run(build(COMMANDS), ["lint", str(connector)])
        run(build(COMMANDS), ["preview", str(connector), "--records", str(records)])


def _run(client: socket.socket, request: bytes, streams: list[int]) -> None:
    code = 1
    try:
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        sys.argv, folder, variables = json.loads(request)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(variables)
        sys.path[:0] = filter(None, variables.get("PYTHONPATH", "").split(os.pathsep))
        from sluice.cli import main

        main()
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else int(e.code is not None)
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    finally:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        client.send(bytes([code]))
        os._exit(code)


if __name__ == "__main__":
    _serve(sys.argv[1])
