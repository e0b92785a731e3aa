"""The worker that online commands talk to: an address, or a named context."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from connect.errors import ConfigError, ConnectError, NotFoundError
from connect.suggestions import did_you_mean
from sluice.cli.output import forms_option, notice, print_forms

if TYPE_CHECKING:
    from rest.client import ConnectClient

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

URL_VARIABLE, CONTEXT_VARIABLE = "SLUICE_CONNECT_URL", "SLUICE_CONTEXT"
DEFAULT_URL = "http://localhost:8083"


def worker_options(function: F) -> F:
    """Adds ``--url`` and ``--context``; the command passes both to :func:`connect_to`."""
    url = click.option(
        "--url",
        envvar=URL_VARIABLE,
        show_envvar=True,
        help="REST address of a worker, http://HOST:PORT. Default: that of the current context, else http://localhost:8083.",
    )
    context = click.option(
        "--context",
        "context_name",
        envvar=CONTEXT_VARIABLE,
        show_envvar=True,
        shell_complete=lambda ctx, parameter, word: [name for name in read_contexts()["contexts"] if name.startswith(word)],
        help="Context to use instead of the current one; see sluice context.",
    )
    return url(context(function))


def connect_to(url: str | None, context_name: str | None) -> ConnectClient:
    """Returns the client of a worker. Raises ConfigError for an unknown context or a malformed address."""
    from rest.client import ConnectClient

    if url is None:
        stored = read_contexts()
        name = context_name or stored["current"]
        if name is not None and name not in stored["contexts"]:
            near = did_you_mean(name, list(stored["contexts"])) or "list them with sluice context ls"
            raise ConfigError(f"There is no context {name}; {near}")
        url = DEFAULT_URL if name is None else stored["contexts"][name]["url"]
    return ConnectClient(url)


def require_sluice(client: ConnectClient, call: Callable[[], T], otherwise: str) -> T:
    """Returns the result of a call of a resource that Apache's workers do not have; ``otherwise`` continues ``The worker at ...``
    in the error if the worker is one of those."""
    try:
        return call()
    except NotFoundError as e:
        if e.message in ("HTTP 404 Not Found", "HTTP 404"):
            raise ConnectError(f"The worker at {client.url} {otherwise}: it is one of Apache Kafka Connect") from e
        raise


def contexts_file() -> Path:
    """Where contexts are stored."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "sluice" / "contexts.json"


def read_contexts() -> dict[str, Any]:
    """Returns ``contexts``, each with a ``url``, by name, and the name of the ``current`` one, or None. Raises ConfigError."""
    path = contexts_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        contexts = {str(name): {"url": str(one["url"])} for name, one in found["contexts"].items()}
        return {"current": found.get("current"), "contexts": contexts}
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} has no contexts: {e}. Correct or delete it") from e


def _write_contexts(contexts: dict[str, Any]) -> None:
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(contexts, indent=2), encoding="utf-8")
    draft.replace(path)


@click.group()
def context() -> None:
    """Name the clusters that you work with, and choose the current one."""


@context.command("ls")
@forms_option
def list_contexts(output: str) -> None:
    """List contexts; the current one has a star."""
    stored = read_contexts()
    found = [(name, one["url"], name == stored["current"]) for name, one in sorted(stored["contexts"].items())]
    value = [{"name": name, "url": url, "current": is_current} for name, url, is_current in found]
    rows = [[name, url, "*" if is_current else None] for name, url, is_current in found]
    print_forms(output, value, ["name", "url", "current"], rows)


@context.command("set")
@click.argument("name")
@click.argument("url")
def set_context(name: str, url: str) -> None:
    """Add a context, or change its address. The first one becomes the current one."""
    from rest.client import ConnectClient

    with ConnectClient(url) as client:  # checks the form of the address
        address = client.url
    stored = read_contexts()
    stored["contexts"][name] = {"url": address}
    stored["current"] = stored["current"] or name
    _write_contexts(stored)
    notice(f"context {name} is {address}" + (" and the current one" if stored["current"] == name else ""))


@context.command("use")
@click.argument("name")
def use_context(name: str) -> None:
    """Choose the current context."""
    stored = read_contexts()
    _require(stored, name)
    _write_contexts({**stored, "current": name})
    notice(f"context {name} is the current one")


@context.command("delete")
@click.argument("name")
def delete_context(name: str) -> None:
    """Delete a context."""
    stored = read_contexts()
    _require(stored, name)
    del stored["contexts"][name]
    _write_contexts({**stored, "current": None if stored["current"] == name else stored["current"]})
    notice(f"context {name} was deleted")


def _require(stored: dict[str, Any], name: str) -> None:
    if name not in stored["contexts"]:
        near = did_you_mean(name, list(stored["contexts"])) or "list them with sluice context ls"
        raise ConfigError(f"There is no context {name}; {near}")
