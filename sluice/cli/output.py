"""Output of commands: data on stdout, notices on stderr, colors only on terminals."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


_IN_YAML = "sluice.output.yaml"
_HELP = "Form of the data on stdout."
_NAMED_HELP = "Form of the data on stdout; name prints names only, one per line."
_LINES_HELP = "Form of the data on stdout: json has one object per line, yaml one document per record."
_Callback = Callable[[click.Context, click.Parameter, str], str]


def output_option(function: F) -> F:
    """Adds ``-o/--output text|json|yaml`` to a command; it receives ``output: str``, which is ``json`` for YAML too:
    :func:`print_json` then prints YAML."""
    return _option("text", "json", "yaml", callback=_note_yaml)(function)


def named_option(function: F) -> F:
    """Adds ``-o/--output text|json|yaml|name`` to a command; it receives ``output`` as with :func:`output_option`, or ``name``,
    for which it calls :func:`print_names`."""
    return _option("text", "json", "yaml", "name", callback=_note_yaml, help=_NAMED_HELP)(function)


def lines_option(function: F) -> F:
    """Adds ``-o/--output text|json|yaml`` to a command that prints records: JSON has one per line, YAML is a stream of documents.
    The command receives ``output`` as with :func:`output_option`, and prints what :func:`format_document` returns."""
    return _option("text", "json", "yaml", callback=_note_yaml, help=_LINES_HELP)(function)


def schema_option(function: F) -> F:
    """Adds ``-o/--output text|json|yaml|json-schema``, as :func:`output_option` does."""
    return _option("text", "json", "yaml", "json-schema", callback=_note_yaml)(function)


def forms_option(function: F) -> F:
    """Adds ``-o/--output text|json|yaml|name`` to a command that lists things; the command passes it to :func:`print_forms`."""
    return _option("text", "json", "yaml", "name", help=_NAMED_HELP)(function)


def _option(*forms: str, callback: _Callback | None = None, help: str = _HELP) -> Callable[[F], F]:
    return click.option("-o", "--output", type=click.Choice(forms), default=forms[0], callback=callback, help=help)


def _note_yaml(ctx: click.Context, _: click.Parameter, value: str) -> str:
    ctx.meta[_IN_YAML] = value == "yaml"
    return "json" if value == "yaml" else value


def print_names(names: Iterable[object]) -> None:
    """Prints names, one per line, each once."""
    for name in dict.fromkeys(names):
        print(name, flush=True)


def print_forms(
    output: str,
    value: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    name: str = "name",
) -> None:
    """Prints things as JSON, YAML, names, or a table, depending on ``-o``; ``name`` is the member with the name."""
    if output == "yaml":
        print(_yaml_document(list(value)), end="", flush=True)
    elif output == "name":
        for one in value:
            print(one[name], flush=True)
    else:
        emit(output, list(value), columns, rows)


def print_json(value: object) -> None:
    """Prints one JSON document on one line of stdout; with ``-o yaml``, a YAML document."""
    print(format_document(value), end="", flush=True)


def format_document(value: object, *, ascii: bool = False) -> str:
    """Returns one JSON document on a line, in ASCII if Unicode's line separators must not break it; with ``-o yaml``, a YAML
    document."""
    context = click.get_current_context(silent=True)
    text = json.dumps(value, ensure_ascii=ascii, default=str)
    if context is not None and context.meta.get(_IN_YAML):
        # What only JSON's encoder can express becomes the same text in both forms.
        return _yaml_document(json.loads(text))
    return f"{text}\n"


def _yaml_document(value: object) -> str:
    """Returns one YAML document; several are a stream."""
    import yaml

    context = click.get_current_context(silent=True)
    is_first = context is None or not context.meta.get(f"{_IN_YAML}.printed")
    if context is not None:
        context.meta[f"{_IN_YAML}.printed"] = True
    start = None if is_first else True
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True, explicit_start=start))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints a table with a header: styled on a terminal, plain text columns elsewhere. None is ``-``."""
    cells = [["-" if cell is None else str(cell) for cell in row] for row in rows]
    if wants_color(sys.stdout):
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, header_style="bold", pad_edge=False)
        for name, numeric in zip(columns, _numeric(columns, rows), strict=True):
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in cells:
            table.add_row(*(Text(cell) for cell in row))
        Console().print(table)
        return
    widths = [max(len(name), *(len(row[at]) for row in cells)) if cells else len(name) for at, name in enumerate(columns)]
    for line in ([name.upper() for name in columns], *cells):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _numeric(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    return [bool(rows) and all(row[at] is None or isinstance(row[at], int | float) for row in rows) for at in range(len(columns))]


def emit(output: str, value: Any, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Prints ``value`` as JSON or ``rows`` as a table, depending on ``-o``."""
    if output == "json":
        print_json(value)
    else:
        print_table(columns, rows)


def notice(text: str) -> None:
    """Prints a message on stderr."""
    print(text, file=sys.stderr, flush=True)


def error(text: str) -> None:
    """Prints an error message on stderr."""
    label = "\x1b[1;31merror:\x1b[0m" if wants_color(sys.stderr) else "error:"
    print(f"{label} {text}", file=sys.stderr, flush=True)


def wants_color(stream: Any) -> bool:
    """Returns whether ``stream`` is a terminal and NO_COLOR is not set."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def as_dict(value: Any) -> dict[str, Any]:
    """Returns a dataclass as JSON-ready values."""
    from dataclasses import asdict

    return dict(_plain(asdict(value)))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value
