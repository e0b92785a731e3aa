"""``sluice lint``: checks worker and connector files offline."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from sluice.cli.errors import BAD_USAGE, OK
from sluice.cli.output import named_option, notice, print_json, print_names, wants_color

if TYPE_CHECKING:
    from connect.config.finding import Finding
    from worker.lint import LintReport

_COLORS = {"error": "1;31", "warning": "33", "note": "36"}
_INDENT = "    "
_NARROWEST = 40


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="FILE...")
@click.option("--strict", is_flag=True, help="Unknown keys are errors, not warnings.")
@named_option
def lint(files: tuple[str, ...], strict: bool, output: str) -> int:
    """Check worker and connector files: .properties, .json, or directories with such files.

    Connectors are checked against the worker file if FILE includes one. No other file or system is accessed, and references
    like ${file:...} are not resolved. With -o name, the files with findings are printed. Exit code 2 if there are errors, else
    0, even with warnings and notes.
    """
    from connect.config.finding import Severity
    from worker.lint import check_files

    report = check_files(files, strict=strict)
    if output == "json":
        counts = {f"{severity.value}s": report.count(severity) for severity in Severity}
        print_json({"files": list(report.files), **counts, "findings": [one.as_json() for one in report.findings]})
    elif output == "name":
        print_names(finding.file for finding in report.findings if finding.file)
    else:
        for path in report.skipped:
            notice(f"{path}: neither a worker file nor a connector file; skipped")
        width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
        print(report_text(report, width=width, color=wants_color(sys.stdout)))
    return BAD_USAGE if report.count(Severity.ERROR) else OK


def report_text(report: LintReport, *, width: int | None = None, color: bool = False) -> str:
    """Returns the findings, one line each or wrapped at ``width``, and a summary line."""
    lines = [line for finding in report.findings for line in _lines(finding, width, color)]
    return "\n".join([*lines, _summary(report)])


def _lines(finding: Finding, width: int | None, color: bool) -> Iterator[str]:
    if width is None:
        yield str(finding)
        return
    severity = finding.severity.value
    label = f"\x1b[{_COLORS[severity]}m{severity}\x1b[0m" if color else severity
    code = f"\x1b[2m[{finding.code}]\x1b[0m" if color else f"[{finding.code}]"
    yield f"{finding.location}: {label} {code}"
    for text in filter(None, (finding.message, finding.suggestion)):
        yield from textwrap.wrap(
            text,
            max(width, _NARROWEST),
            initial_indent=_INDENT,
            subsequent_indent=_INDENT,
            break_on_hyphens=False,
            break_long_words=False,
        )


def _summary(report: LintReport) -> str:
    from connect.config.finding import Severity

    files = _counted(len(report.files), "file")
    counts = [_counted(report.count(severity), severity.value) for severity in Severity if report.count(severity)]
    return f"{files}: {', '.join(counts) or 'nothing found'}"


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
