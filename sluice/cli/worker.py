"""The worker that online commands talk to: an address, or a named context."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from connect.errors import ConfigError
from connect.suggestions import did_you_mean
from sluice.cli.output import forms_option, notice, output_option, print_forms, print_json

if TYPE_CHECKING:
    from rest.client import ConnectClient
    from rest.credentials import ClientCredentials

F = TypeVar("F", bound=Callable[..., Any])

PREFIX = "SLUICE_CONNECT_"
URL_VARIABLE, CONTEXT_VARIABLE = f"{PREFIX}URL", "SLUICE_CONTEXT"
STORED_FIELDS = ("user", "password_file", "token_file", "token_command", "ca_file", "certificate_file", "key_file")
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
    for name, help in reversed(_CREDENTIAL_OPTIONS.items()):
        function = click.option(
            f"--{name.replace('_', '-')}",
            name,
            expose_value=False,
            callback=_remember,
            envvar=f"{PREFIX}{name.upper()}",
            help=help,
        )(function)
    return url(context(function))


_CREDENTIAL_OPTIONS = {
    "user": "User for a worker with authentication; the password is in SLUICE_CONNECT_PASSWORD or a file.",
    "password_file": "File with the user's password.",
    "token_file": "File with a token, instead of a user. Also SLUICE_CONNECT_TOKEN, the token itself.",
    "token_command": "Command that prints a token.",
    "ca_file": "PEM file of the authorities to trust for https.",
    "certificate_file": "PEM file of a client certificate for https.",
    "key_file": "PEM file of its key, if it is in another file.",
}
_META = "sluice.credentials"


def _remember(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """Keeps an option for :func:`connect_to`, so that the commands need not pass it on."""
    if value is not None:
        ctx.meta.setdefault(_META, {})[str(parameter.name)] = value
    return value


def _given_credentials() -> ClientCredentials:
    """Returns the credentials of options and environment variables."""
    from rest.credentials import ClientCredentials

    ctx = click.get_current_context(silent=True)
    options = {} if ctx is None else ctx.meta.get(_META, {})
    return ClientCredentials(**options).over(ClientCredentials.from_environment())


def connect_to(url: str | None, context_name: str | None) -> ConnectClient:
    """Returns the client of a worker. Raises ConfigError for an unknown context or a malformed address.

    Credentials of a context are sent to its own address only.
    """
    from rest.client import ConnectClient
    from rest.credentials import ClientCredentials

    credentials = _given_credentials()
    if url is None:
        stored = read_contexts()
        name = context_name or stored["current"]
        if name is not None and name not in stored["contexts"]:
            near = did_you_mean(name, list(stored["contexts"])) or "list them with sluice context ls"
            raise ConfigError(f"There is no context {name}; {near}")
        if name is None:
            url = DEFAULT_URL
        else:
            found = stored["contexts"][name]
            url = found["url"]
            credentials = credentials.over(ClientCredentials(**{key: value for key, value in found.items() if key != "url"}))
    return ConnectClient(url, credentials=credentials)


def worker_environment(url: str | None, context_name: str | None) -> dict[str, str]:
    """Returns the environment variables with which another command talks to the same worker as :func:`connect_to`."""
    ctx = click.get_current_context(silent=True)
    given = {} if ctx is None else ctx.meta.get(_META, {})
    variables = {f"{PREFIX}{name.upper()}": value for name, value in given.items()}
    name = None if url is not None else context_name or read_contexts()["current"]
    return {**variables, **({URL_VARIABLE: url or DEFAULT_URL} if name is None else {CONTEXT_VARIABLE: name})}


def contexts_file() -> Path:
    """Where contexts are stored."""
    base = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(base) / "sluice" / "contexts.json"


def read_contexts() -> dict[str, Any]:
    """Returns ``contexts``, each with a ``url`` and where its credentials are, by name, and the name of the ``current`` one, or
    None. Raises ConfigError."""
    path = contexts_file()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = ("url", *STORED_FIELDS)
        contexts = {
            str(name): {"url": str(one["url"]), **{key: str(value) for key, value in one.items() if key in known}}
            for name, one in found["contexts"].items()
        }
        return {"current": found.get("current"), "contexts": contexts}
    except FileNotFoundError:
        return {"current": None, "contexts": {}}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
        raise ConfigError(f"{path} has no contexts: {e}. Correct or delete it") from e


def _write_contexts(contexts: dict[str, Any]) -> None:
    path = contexts_file()
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".tmp")
    # It has no secrets, but says where they are.
    draft.touch(mode=0o600)
    draft.write_text(json.dumps(contexts, indent=2), encoding="utf-8")
    draft.replace(path)


def _stored_options(function: F) -> F:
    for name, help in reversed(_CREDENTIAL_OPTIONS.items()):
        function = click.option(f"--{name.replace('_', '-')}", name, help=help)(function)
    return function


def _warn_if_shared(path: str | None) -> None:
    try:
        mode = 0 if path is None else Path(path).expanduser().stat().st_mode
    except OSError:
        return  # said when it is used
    if mode & 0o077:
        notice(f"{path} can be read by other users: chmod 600 {path}")


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
@_stored_options
@output_option
def set_context(name: str, url: str, output: str, **where: str | None) -> None:
    """Add a context, or change it. The first one becomes the current one.

    A context says where the secrets are; it never has them itself.
    """
    from rest.client import ConnectClient

    with ConnectClient(url) as client:  # checks the form of the address
        address = client.url
    stored = read_contexts()
    files = {key: value for key, value in where.items() if value is not None}
    for key in ("password_file", "token_file", "key_file"):
        _warn_if_shared(files.get(key))
    stored["contexts"][name] = {"url": address, **files}
    stored["current"] = stored["current"] or name
    _write_contexts(stored)
    is_current = stored["current"] == name
    if output == "json":
        print_json({"name": name, "url": address, "current": is_current})
        return
    notice(f"context {name} is {address}" + (" and the current one" if is_current else ""))


@context.command("use")
@click.argument("name")
@output_option
def use_context(name: str, output: str) -> None:
    """Choose the current context."""
    stored = read_contexts()
    _require(stored, name)
    _write_contexts({**stored, "current": name})
    if output == "json":
        print_json({"name": name, "url": stored["contexts"][name]["url"], "current": True})
        return
    notice(f"context {name} is the current one")


@context.command("delete")
@click.argument("name")
@output_option
def delete_context(name: str, output: str) -> None:
    """Delete a context."""
    stored = read_contexts()
    _require(stored, name)
    del stored["contexts"][name]
    _write_contexts({**stored, "current": None if stored["current"] == name else stored["current"]})
    if output == "json":
        print_json({"name": name, "deleted": True})
        return
    notice(f"context {name} was deleted")


def _require(stored: dict[str, Any], name: str) -> None:
    if name not in stored["contexts"]:
        near = did_you_mean(name, list(stored["contexts"])) or "list them with sluice context ls"
        raise ConfigError(f"There is no context {name}; {near}")
