"""``sluice loggers``, ``plugins``, ``history``, and ``rollback``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from sluice.cli.live_names import complete_names
from sluice.cli.output import emit, forms_option, named_option, notice, output_option, print_forms, print_json, print_names
from sluice.cli.worker import connect_to, worker_options
from sluice.online.connectors import require_sluice, shown_config

if TYPE_CHECKING:
    from rest.client import ConnectClient

_NAME = click.argument("name", shell_complete=complete_names)
_LEVELS = ("TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF")


@click.group()
def loggers() -> None:
    """Show and set the levels of a worker's loggers, while it runs."""


@loggers.command("ls")
@worker_options
@forms_option
def list_loggers(url: str | None, context_name: str | None, output: str) -> None:
    """List loggers that have a level."""
    with connect_to(url, context_name) as client:
        found = [{"name": name, "level": one["level"]} for name, one in sorted(client.loggers().items())]
    print_forms(output, found, ["name", "level"], [[one["name"], one["level"]] for one in found])


@loggers.command("set")
@click.argument("logger")
@click.argument("level", type=click.Choice(_LEVELS, case_sensitive=False))
@click.option("--cluster", is_flag=True, help="On all workers of the cluster, not only on this one.")
@worker_options
@output_option
def set_logger(logger: str, level: str, cluster: bool, url: str | None, context_name: str | None, output: str) -> None:
    """Set the level of a logger and of those below it; root is all."""
    with connect_to(url, context_name) as client:
        changed = client.set_logger(logger, level.upper(), cluster=cluster)
    if output == "json":
        print_json({"logger": logger, "level": level.upper(), "cluster": cluster, "changed": changed})
        return
    at = "on all workers" if cluster else f"on {client.url}"
    notice(f"{logger} has level {level.upper()} {at}" + (f" ({len(changed)} loggers)" if changed else ""))


@click.command()
@click.option("--all", "shows_all", is_flag=True, help="Also transformations, predicates, and converters.")
@worker_options
@forms_option
def plugins(shows_all: bool, url: str | None, context_name: str | None, output: str) -> None:
    """List the connectors that a worker can run."""
    with connect_to(url, context_name) as client:
        found = sorted(client.plugins(connectors_only=not shows_all), key=lambda one: (one["type"], one["class"]))
    rows = [[one["class"], one["type"], one.get("version")] for one in found]
    print_forms(output, found, ["class", "type", "version"], rows, name="class")


@click.command()
@_NAME
@click.option("--version", "number", type=int, help="Show the configuration of this version.")
@worker_options
@named_option
def history(name: str, number: int | None, url: str | None, context_name: str | None, output: str) -> None:
    """List the configurations that a connector had; sluice rollback restores one. Workers of Sluice only. Secrets are hidden.

    With -o name, the versions are printed, or the keys of one.
    """
    with connect_to(url, context_name) as client:
        if number is None:
            versions = _of_sluice(client, lambda: client.history(name))
            if output == "name":
                print_names(one["version"] for one in versions)
                return
            rows = [[one["version"], one["at"], one["origin"], _changed(one)] for one in versions]
            emit(output, versions, ["version", "at", "origin", "changed"], rows)
            return
        config = _of_sluice(client, lambda: client.config_version(name, number))
        shown = None if config is None else shown_config(client, config)
    if shown is None:
        notice(f"version {number} of {name} is its deletion")
        shown = {}
    if output == "name":
        print_names(shown)
        return
    emit(output, shown, ["key", "value"], [[key, value] for key, value in shown.items()])


@click.command()
@_NAME
@click.argument("version", type=int)
@worker_options
@output_option
def rollback(name: str, version: int, url: str | None, context_name: str | None, output: str) -> None:
    """Restore an earlier configuration of a connector, or a deleted connector. Workers of Sluice only."""
    with connect_to(url, context_name) as client:
        _of_sluice(client, lambda: client.rollback(name, version))
    if output == "json":
        print_json({"name": name, "version": version})
        return
    notice(f"{name} has the configuration of version {version} again")


def _of_sluice(client: ConnectClient, call: Callable[[], Any]) -> Any:
    return require_sluice(client, call, "keeps no history")


def _changed(one: Mapping[str, Any]) -> str:
    if one["deleted"]:
        return "deleted"
    kinds = {"added": "+", "removed": "-", "changed": "~"}
    return " ".join(f"{mark}{key}" for kind, mark in kinds.items() for key in one["changes"][kind])
