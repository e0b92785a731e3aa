"""``sluice test``: runs the config tests next to connector files."""

from __future__ import annotations

import click

from sluice.cli.errors import FAILED, OK
from sluice.cli.output import output_option, print_json, wants_color


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@output_option
def test(paths: tuple[str, ...], output: str) -> int:
    """Run config tests offline: files X.test.yaml, or directories that contain such files.

    A file tests how the connector of X.properties (or X.json) transforms records. Exit code 1 if a test fails, 2 if a file
    is invalid.
    """
    import sys

    from sluice.config_tests import format_result, format_summary, run_files

    results = run_files(paths)
    failed = sum(not result.passed for result in results)
    if output == "json":
        print_json({"passed": len(results) - failed, "failed": failed, "tests": [result.as_json() for result in results]})
    else:
        for result in results:
            print(format_result(result, color=wants_color(sys.stdout)))
        print(format_summary(results))
    return FAILED if failed else OK
