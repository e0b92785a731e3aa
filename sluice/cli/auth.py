"""``sluice auth``: lines for a worker's files of users and tokens, and who one is at a worker."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import click

from connect.errors import ConfigError
from sluice.cli.output import emit, notice, output_option, print_json
from sluice.cli.worker import connect_to, worker_options

_NAME = re.compile(r"[^:#\s][^:\s]*")
_FILE = click.option(
    "--file", "file", type=click.Path(path_type=Path), help="File to change: the line of the name is added or replaced."
)


@click.group()
def auth() -> None:
    """Create users and tokens for workers, and show who you are at one."""


@auth.command("user")
@click.argument("name")
@_FILE
@output_option
def add_user(name: str, file: Path | None, output: str) -> None:
    """Print a line for rest.authentication.users.file, or write it into the file.

    Asks for the password, or reads it from stdin.
    """
    from rest.security.passwords import hash_password

    _require_name(name)
    if sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise ConfigError("The password is empty")
    line = f"{name}:{hash_password(password)}"
    if file is not None:
        _write(file, name, line, output)
    if output == "json":
        print_json({"name": name, **_place(file, line)})
    elif file is None:
        print(line)


@auth.command("token")
@click.argument("name")
@click.option("--group", "groups", multiple=True, help="Group of the token, for the roles file. Can be repeated.")
@_FILE
@output_option
def add_token(name: str, groups: tuple[str, ...], file: Path | None, output: str) -> None:
    """Create a token and print it, once.

    Also prints a line with its hash for rest.authentication.tokens.file, or writes that into the file.
    """
    from rest.security.passwords import hash_token, new_token

    for word in (name, *groups):
        _require_name(word)
    token = new_token()
    line = f"{name}:{hash_token(token)}" + (f":{','.join(groups)}" if groups else "")
    if file is not None:
        _write(file, name, line, output)
    if output == "json":
        print_json({"name": name, "groups": list(groups), "token": token, **_place(file, line)})
        return
    if file is None:
        print(line)
    notice(f"the token of {name} follows; it cannot be shown again")
    print(token)


@auth.command("whoami")
@worker_options
@output_option
def who_am_i(url: str | None, context_name: str | None, output: str) -> None:
    """Show as whom a worker knows you, and your roles. Workers of Sluice only."""
    with connect_to(url, context_name) as client:
        found = client.session()
    roles = [f"{one['role']} of {', '.join(one['connectors'])}" for one in found["roles"]]
    rows = [[found["subject"] or "anonymous", ", ".join(found["groups"]) or None, "; ".join(roles) or None]]
    emit(output, found, ["user", "groups", "roles"], rows)


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name) or "," in name:
        raise ConfigError(f"'{name}' cannot be a name here: it is empty or contains a colon, a comma, a blank, or begins with #")


def _place(file: Path | None, line: str) -> dict[str, str]:
    """Returns where the line is: in a file, or here."""
    return {"line": line} if file is None else {"file": str(file)}


def _write(file: Path, name: str, line: str, output: str) -> None:
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        found = [at for at, one in enumerate(lines) if one.strip().startswith(f"{name}:")]
        if found:
            lines[found[0]] = line
        else:
            lines.append(line)
        # Replaced in one step: a worker may read it at any moment.
        draft = file.with_name(f".{file.name}.tmp")
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o600
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")
        draft.chmod(mode)
        draft.replace(file)
    except (OSError, UnicodeDecodeError) as e:
        raise ConfigError(f"Cannot change {file}: {e}") from e
    if output == "text":
        notice(f"{file} has {'a new line' if found else 'a line'} for {name}")
