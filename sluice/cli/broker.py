"""``sluice broker``: the embedded Apache Kafka broker."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.errors import UNREACHABLE
from sluice.cli.output import notice, output_option, print_json

if TYPE_CHECKING:
    from sluice.embedded.broker import EmbeddedBroker

_data_dir = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="The broker's directory [default: ~/.local/share/sluice/broker]",
)


def _handle(data_dir: Path | None, port: int | None = None) -> EmbeddedBroker:
    from sluice.embedded.broker import EmbeddedBroker
    from sluice.embedded.directories import data_home

    return EmbeddedBroker(data_dir or data_home() / "broker", port=port)


@click.group()
def broker() -> None:
    """The embedded Apache Kafka: one KRaft broker on this machine, for first runs and tests."""


@broker.command()
@click.option("--port", type=click.IntRange(1, 65535), help="Port for clients [default: the previous one, else 9092]")
@_data_dir
@output_option
def start(port: int | None, data_dir: Path | None, output: str) -> None:
    """Start the broker and return once it serves requests. It runs until 'sluice broker stop'."""
    from sluice.cli.setup import fetch_jars
    from sluice.embedded.broker import DEFAULT_PORT

    handle = _handle(data_dir, port)
    if port is None and not (handle.data_dir / "server.properties").exists():
        handle = _handle(data_dir, DEFAULT_PORT)
    started_at = time.monotonic()
    already = handle.answers()
    if not already:
        fetch_jars("kafka")
    handle.start()
    _print(handle, output, "already runs" if already else f"started in {time.monotonic() - started_at:.1f} s")


@broker.command()
@_data_dir
@output_option
def stop(data_dir: Path | None, output: str) -> None:
    """Stop the broker and keep its data. Not an error if it is not running."""
    handle = _handle(data_dir)
    stopped = handle.stop()
    if output == "json":
        print_json({"stopped": stopped, "data_dir": str(handle.data_dir)})
    else:
        notice(f"broker stopped; its data remains in {handle.data_dir}" if stopped else "the broker was not running")


@broker.command()
@_data_dir
@output_option
def status(data_dir: Path | None, output: str) -> int:
    """Show whether the broker runs and responds; exit code 3 if not."""
    handle = _handle(data_dir)
    answers = handle.answers()
    _print(handle, output, "running" if answers else "starting or stuck" if handle.running else "not running")
    return 0 if answers else UNREACHABLE


def _print(handle: EmbeddedBroker, form: str, state: str) -> None:
    pid = handle.pid
    bootstrap = handle.bootstrap if pid is not None else None
    facts = {"state": state, "running": pid is not None, "bootstrap": bootstrap, "pid": pid}
    if form == "json":
        print_json({**facts, "data_dir": str(handle.data_dir), "log": str(handle.log_file)})
        return
    notice(f"broker {state}" + (f" (pid {pid}, log {handle.log_file})" if pid else ""))
    if bootstrap:
        print(bootstrap)
