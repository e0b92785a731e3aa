"""``sluice mcp``: serves assistants over the Model Context Protocol."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from connect.errors import ConfigError
from connect.extras import require_extra
from sluice.cli.output import notice
from sluice.cli.worker import connect_to, worker_environment, worker_options

if TYPE_CHECKING:
    from rest.client import ConnectClient

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.command()
@click.option(
    "--http",
    metavar="[HOST:]PORT",
    help="Serve streamable HTTP at this loopback address, path /mcp, instead of standard input and output.",
)
@click.option("--allow-changes", is_flag=True, help="Also offer tools that change the cluster.")
@click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=Path(),
    help="The folder below which tools may read files. Default: the current folder.",
)
@worker_options
def mcp(http: str | None, allow_changes: bool, root: Path, url: str | None, context_name: str | None) -> None:
    """Serve an assistant with tools of the Model Context Protocol: diagnose, describe, lint, preview, plan, reference pages.

    Tools change nothing without --allow-changes, and never show secrets. Works with workers of Apache Kafka Connect too.
    """
    require_extra("mcp", "sluice mcp")
    from sluice.assistant.commands import CommandRunner
    from sluice.assistant.server import build_server
    from sluice.cli import COMMANDS

    with connect_to(url, context_name) as client:  # checks the address
        address = client.url
    environment = worker_environment(url, context_name)
    context = click.get_current_context()

    def connect() -> ConnectClient:
        # For each tool call, because a file or command may return other credentials then. Tools run on other threads.
        with context.scope(cleanup=False):
            return connect_to(url, context_name)

    server = build_server(connect, CommandRunner(environment), root, COMMANDS, allows_changes=allow_changes)
    if http is None:
        server.run("stdio")
        return
    host, port = _loopback_address(http)
    notice(f"serving {address} at http://{host}:{port}/mcp" + ("" if allow_changes else ", read-only"))
    server.run("streamable-http", host=host, port=port)


def _loopback_address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    host = host.strip("[]") or _LOOPBACK[0]
    if host not in _LOOPBACK or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(
            f"--http {text} is not [HOST:]PORT with a HOST of {', '.join(_LOOPBACK)}: there is no authentication, so the server "
            "listens on this machine only. Put a proxy that authenticates in front to reach it from others"
        )
    return host, int(port)
