"""``sluice test``: the tests that lie beside connector files."""

from __future__ import annotations

import click

from sluice.cli.errors import FAILED, OK
from sluice.cli.output import output_option, print_json, wants_colour


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(), metavar="PATH...")
@output_option
def test(paths: tuple[str, ...], output: str) -> int:
    """Run config tests, offline: files named X.test.yaml, or folders that are looked through for such.

    A file says what the connector of X.properties (or X.json) makes of records. Ends with 1 when a test fails, with 2 when a
    file is not as it should be.
    """
    import sys

    from sluice.config_tests import run_files, summary, text_of

    results = run_files(paths)
    failed = sum(not result.passed for result in results)
    if output == "json":
        print_json({"passed": len(results) - failed, "failed": failed, "tests": [result.as_json() for result in results]})
    else:
        for result in results:
            print(text_of(result, colour=wants_colour(sys.stdout)))
        print(summary(results))
    return FAILED if failed else OK
