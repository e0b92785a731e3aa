"""The one place where errors become messages and exit codes."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click

from connect.errors import BadRequestError, ConfigError, ConnectError, UnreachableError
from sluice.cli import output

OK = 0
FAILED = 1
BAD_USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
"""What shells report for a command ended by Ctrl-C."""

# Subclasses come before their bases.
_CODES: tuple[tuple[type[ConnectError], int], ...] = (
    (UnreachableError, UNREACHABLE),
    (ConfigError, BAD_USAGE),
    (BadRequestError, BAD_USAGE),
    (ConnectError, FAILED),
)


def exit_code_of(error: ConnectError) -> int:
    """The exit code for an error of ours, by its class."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Run ``command`` and return its exit code. Errors of ours and of click are reported on stderr, never as a traceback.

    With ``-o json`` the report is one JSON object. An error that is neither is a defect and keeps its traceback.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Not `Command.main`, which ends the process with 1 when the reader of a pipe has left.
        with command.make_context(command.name, list(words)) as context:
            result = command.invoke(context)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        usage = error.exit_code == BAD_USAGE
        if isinstance(error, click.UsageError) and error.ctx is not None and not _wants_json(words):
            print(error.ctx.get_usage(), file=sys.stderr)
        _report(type(error).__name__, error.format_message(), words)
        return BAD_USAGE if usage else FAILED
    except ConnectError as error:
        _report(type(error).__name__, error.message, words)
        return exit_code_of(error)
    except (KeyboardInterrupt, click.exceptions.Abort):
        output.notice("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader has had enough (`| head`). Point stdout at nothing, so that the flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return result if isinstance(result, int) else OK


def _report(kind: str, message: str, words: Sequence[str]) -> None:
    if _wants_json(words):
        print(json.dumps({"error": {"class": kind, "message": message}}), file=sys.stderr)
    else:
        output.error(message)


def _wants_json(words: Sequence[str]) -> bool:
    # From the words themselves: a usage error happens before the option is parsed.
    joined = " ".join(words)
    return any(form in f"{joined} " for form in ("-o json ", "-ojson ", "--output json ", "--output=json "))
