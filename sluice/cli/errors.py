"""Maps errors to messages and exit codes, in one place."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence

import click

from connect.errors import BadRequestError, ConfigError, ConnectError, UnreachableError
from connect.extras import explain_import_error
from sluice.cli import output

OK = 0
FAILED = 1
BAD_USAGE = 2
UNREACHABLE = 3
INTERRUPTED = 130
"""As shells report a command that Ctrl-C ended."""

# Subclasses come before their bases.
_CODES: tuple[tuple[type[ConnectError], int], ...] = (
    (UnreachableError, UNREACHABLE),
    (ConfigError, BAD_USAGE),
    (BadRequestError, BAD_USAGE),
    (ConnectError, FAILED),
)


def exit_code_of(error: ConnectError) -> int:
    """Returns the exit code for an error, by its class."""
    return next(code for kind, code in _CODES if isinstance(error, kind))


def run(command: click.Command, arguments: Sequence[str] | None = None) -> int:
    """Runs ``command`` and returns its exit code. Reports Sluice's and click's errors on stderr without a traceback.

    With ``-o json`` the report is one JSON object. Any other error is a bug and keeps its traceback.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        # Not `Command.main`, which exits with 1 when the reader of a pipe has closed it.
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
    except ModuleNotFoundError as error:
        missing = explain_import_error(error, f"sluice {next(iter(words), '')}".rstrip())
        if missing is None:
            raise
        _report(type(missing).__name__, missing.message, words)
        return BAD_USAGE
    except (KeyboardInterrupt, click.exceptions.Abort):
        output.notice("interrupted")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe (`| head`). Redirect stdout, so that the flush at exit does not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    return result if isinstance(result, int) else OK


def _report(kind: str, message: str, words: Sequence[str]) -> None:
    if _wants_json(words):
        print(json.dumps({"error": {"class": kind, "message": message}}), file=sys.stderr)
    else:
        output.error(message)


def _wants_json(words: Sequence[str]) -> bool:
    # From the raw arguments: a usage error occurs before options are parsed.
    joined = " ".join(words)
    return any(form in f"{joined} " for form in ("-o json ", "-ojson ", "--output json ", "--output=json "))
