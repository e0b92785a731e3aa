"""Names that a shell offers when it completes a command: connectors of a worker, topics and groups of a Kafka cluster."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import click

from sluice.cli.connection import DEFAULT_BOOTSTRAP, client_properties
from sluice.cli.worker import connect_to

DEADLINE_S = 0.7
"""A shell waits that long, whatever the worker, the broker, or the name server does."""


def complete_names(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Names of connectors; none if no worker answers at once."""

    def find() -> Iterable[str]:
        with connect_to(ctx.params.get("url"), ctx.params.get("context_name")) as client:
            return client.connectors()

    return _find_within(ctx, find, word)


def complete_topics(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Names of topics, internal ones only after an underscore; none if no broker answers at once."""

    def find() -> Iterable[str]:
        from worker.kafka.admin import KafkaAdmin

        names = KafkaAdmin(_clients(ctx)).topic_names()
        return [name for name in names if word.startswith("_") or not name.startswith("__")]

    return _find_within(ctx, find, word)


def complete_groups(ctx: click.Context, parameter: click.Parameter, word: str) -> list[str]:
    """Names of consumer groups; none if no broker answers at once."""

    def find() -> Iterable[str]:
        from worker.kafka.admin import KafkaAdmin

        return [name for name, _ in KafkaAdmin(_clients(ctx)).group_names()]

    return _find_within(ctx, find, word)


def _clients(ctx: click.Context) -> dict[str, str]:
    return client_properties(ctx.params.get("bootstrap_server") or DEFAULT_BOOTSTRAP, ctx.params.get("command_config"))


def _find_within(ctx: click.Context, find: Callable[[], Iterable[str]], word: str) -> list[str]:
    """Returns the names that begin with a word; none after the deadline, or after an error, which a shell cannot show."""
    found: list[str] = []

    def run() -> None:
        try:
            with ctx.scope(cleanup=False):  # has the credentials
                found.extend(sorted(name for name in find() if name.startswith(word)))
        except Exception:
            found.clear()

    # A daemon: a call that hangs ends with the command.
    thread = threading.Thread(target=run, name="completion", daemon=True)
    thread.start()
    thread.join(DEADLINE_S)
    return [] if thread.is_alive() else found
