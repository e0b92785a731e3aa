"""The root command: a click group whose commands are imported on demand."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import click

PROGRAM, VARIABLE = "sluice", "_SLUICE_COMPLETE"
"""A shell that asks for completions sets the variable."""
_HELP_OPTION = {"help_option_names": ["-h", "--help"]}


@dataclass(frozen=True, slots=True)
class Command:
    """A command's target (``module:attribute``) and its line in the help."""

    target: str
    help: str

    def load(self) -> click.Command:
        module, _, attribute = self.target.partition(":")
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        command.context_settings.update(_HELP_OPTION)  # not only below the root command: click creates the option once
        return command


class LazyGroup(click.Group):
    """A group that imports a command's module only when the command is called."""

    def __init__(self, *, lazy: Mapping[str, Command], name: str, help: str) -> None:
        super().__init__(name=name, help=help, context_settings={**_HELP_OPTION})
        self._lazy = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._lazy)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = self._lazy.get(cmd_name)
        return found.load() if found else None

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._lazy and not args[0].startswith("-"):
            near = get_close_matches(args[0], self._lazy, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Commands: {', '.join(self._lazy)}."
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        # From the table, so that no command is imported.
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in self._lazy.items()])


def complete(command: click.Command) -> int:
    """Answers a shell that asks for completions. Returns the exit code."""
    from click.shell_completion import shell_complete

    return shell_complete(command, {}, PROGRAM, VARIABLE, os.environ[VARIABLE])


def build(commands: Mapping[str, Command]) -> click.Group:
    """Returns the root command with these commands."""
    group = LazyGroup(lazy=commands, name="sluice", help="Sluice: Kafka Connect for Python.")
    group.params.append(
        click.Option(
            ["--version"], is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version and exit."
        )
    )
    return group


def _version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        from sluice import __version__

        click.echo(f"sluice {__version__}")
        ctx.exit()
