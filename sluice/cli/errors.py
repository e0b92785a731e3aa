"""Maps errors to messages and exit codes, in one place."""

from __future__ import annotations

import json
import os
import re
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

    With ``-o json`` the report is one JSON object, with ``-o yaml`` a YAML document. Any other error is a bug and keeps its
    traceback.
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
        if isinstance(error, click.UsageError) and error.ctx is not None and _wanted_form(words) is None:
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
    match _wanted_form(words):
        case "json":
            print(json.dumps({"error": {"class": kind, "message": message}}), file=sys.stderr)
        case "yaml":
            import yaml

            document = yaml.safe_dump({"error": {"class": kind, "message": message}}, sort_keys=False, allow_unicode=True)
            print(document, end="", file=sys.stderr)
        case _:
            output.error(message)


def _wanted_form(words: Sequence[str]) -> str | None:
    # From the raw arguments: a usage error occurs before options are parsed.
    found = re.findall(r"(?:^| )(?:-o ?|--output[ =])(json|yaml)(?= |$)", " ".join(words))
    return found[-1] if found else None
