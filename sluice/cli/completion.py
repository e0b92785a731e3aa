"""``sluice completion``: completion of commands, options, and live names in a shell."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from sluice.cli.app import PROGRAM, VARIABLE


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that a shell loads to complete commands, options, and names of connectors.

    For bash, add to ~/.bashrc: eval "$(sluice completion bash)". For zsh, the same in ~/.zshrc. For fish:
    sluice completion fish > ~/.config/fish/completions/sluice.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())
