"""``sluice ui``: the web page for any cluster, also of Apache Kafka Connect."""

from __future__ import annotations

import signal
import threading

import click

from sluice.cli.output import notice, output_option, print_json
from sluice.cli.worker import connect_to, worker_options

DEFAULT_PORT = 8090


@click.command()
@click.option("--port", default=DEFAULT_PORT, show_default=True, type=click.IntRange(0, 65535), help="Port; 0 is any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on, and host name of the page.")
@click.option("--read-only", is_flag=True, help="The page has no buttons that change anything, and no change is passed on.")
@worker_options
@output_option
def ui(port: int, host: str, read_only: bool, url: str | None, context_name: str | None, output: str) -> None:
    """Serve the web page for a worker, until Ctrl-C.

    A worker of Sluice has the page itself, at /ui. This command is for workers of Apache Kafka Connect, and for workers whose
    page is disabled or out of reach of a browser. Everyone who can open the page can do what the worker allows: leave --host at
    a loopback address unless the network is trusted.
    """
    from connect.errors import ConnectError, UnreachableError
    from rest.ui_server import UiServer

    with connect_to(url, context_name) as client:
        try:
            client.server_info()
        except UnreachableError:
            raise
        except ConnectError as e:  # it asks for credentials, which the browser has
            notice(f"the worker answers: {e.message}")
        target = client.url
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    server = UiServer(target, host, port, read_only=read_only)
    try:
        if output == "json":
            print_json({"url": server.url, "target": target, "read_only": read_only})
        else:
            print(server.url, flush=True)
            notice(f"web page of {target}; stop with Ctrl-C")
        stop.wait()
    finally:
        server.close()
