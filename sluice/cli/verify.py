"""``sluice verify``: proves that the tables of a sink equal the database that they come from."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.connection import bootstrap_options, client_properties
from sluice.cli.durations import duration_option
from sluice.cli.live_names import complete_names
from sluice.cli.output import notice, output_option, print_json, print_table
from sluice.cli.progress import progress
from sluice.cli.worker import connect_to, worker_options

if TYPE_CHECKING:
    from connect.plugins import Plugins
    from rest.client import ConnectClient
    from sluice.verify.model import VerificationResult
    from sluice.verify.pairs import ConnectorPair
    from sluice.verify.session import VerifyOptions

_SHOWN = 20


@click.command()
@click.argument("connector", required=False, shell_complete=complete_names)
@click.option("--source", metavar="NAME|FILE", help="The source connector, if it cannot be found by its topics.")
@click.option("--sink", metavar="NAME|FILE", help="The sink connector, if only one of a source's sinks is meant.")
@click.option("--worker-config", type=click.Path(), help="The worker's file: default converters and config providers.")
@click.option("--tables", "tables", metavar="REGEX[,REGEX...]", default="", help="Source tables (schema.table). Default: all.")
@click.option("--ignore-columns", metavar="NAME[,NAME...]", default="", help="Columns of the target that are not compared.")
@click.option("--sample", type=click.IntRange(1), metavar="ROWS", help="Compare only so many random rows of each table.")
@click.option("--max-differences", type=click.IntRange(1), default=1000, show_default=True, help="End a table after so many.")
@click.option("--no-values", is_flag=True, help="Show keys and names of columns, but no other values.")
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=duration_option,
    default="10m",
    show_default=True,
    help="How long one verification may take.",
)
@click.option("--repair", is_flag=True, help="Mend rows that differ through the pipeline, then verify again.")
@click.option("--dry-run", is_flag=True, help="With --repair: only show what would be sent.")
@click.option(
    "--every", metavar="DURATION", callback=duration_option, help="Verify again and again, and store each result in the worker."
)
@click.option("--worker-link", hidden=True, help="For the schedule of a worker: the descriptor of its socket, and its process.")
@click.option("--count", type=click.IntRange(1), help="With --every: end after so many.")
@worker_options
@bootstrap_options
@output_option
def verify(
    connector: str | None,
    source: str | None,
    sink: str | None,
    worker_config: str | None,
    tables: str,
    ignore_columns: str,
    sample: int | None,
    max_differences: int,
    no_values: bool,
    timeout: float,
    repair: bool,
    dry_run: bool,
    every: float | None,
    count: int | None,
    worker_link: str | None,
    url: str | None,
    context_name: str | None,
    bootstrap_server: str,
    command_config: Path | None,
    output: str,
) -> int:
    """Compare the tables of a sink with the database of its source, at one position, while both change.

    CONNECTOR is a sink, or a source with all of its sinks. Exit codes: 0 equal, 1 different, 2 wrong usage, 3 unreachable.
    """
    from connect.errors import ConfigError, ConnectError
    from connect.extras import require_extra
    from connect.plugins import Plugins

    require_extra("verify", "sluice verify")
    from sluice.verify.pairs import PairFinder, read_worker_config
    from sluice.verify.session import VerifyOptions

    if dry_run and not repair:
        raise click.UsageError("--dry-run belongs to --repair")
    if count is not None and every is None:
        raise click.UsageError("--count belongs to --every")
    options = VerifyOptions(
        tables=_listed(tables),
        sample=sample,
        timeout_s=timeout,
        max_differences=max_differences,
        ignored_columns=_listed(ignore_columns),
        kafka=client_properties(bootstrap_server, command_config),
    )
    if worker_link is not None:
        from sluice.verify.worker_link import verify_for_worker

        return verify_for_worker(worker_link, connector or "", source, options)
    worker = read_worker_config(worker_config)
    plugins = Plugins.discover()
    pause = threading.Event()
    with connect_to(url, context_name) as client:
        number = 0
        while True:
            number += 1
            is_equal = True
            try:
                for pair in PairFinder(client, worker, plugins).find(connector, source, sink):
                    found = _verify(pair, worker, client, plugins, options, output, no_values, repair=repair, dry_run=dry_run)
                    is_equal = is_equal and found.is_equal
                    _store(client, found, quiet=every is None)
            except ConfigError:
                raise
            except ConnectError as e:
                if every is None:
                    raise
                is_equal = False
                notice(f"error: {e.message}")
            if every is None or number == count:
                return 0 if is_equal else 1
            pause.wait(every)


def _verify(
    pair: ConnectorPair,
    worker: Mapping[str, str] | None,
    client: ConnectClient,
    plugins: Plugins,
    options: VerifyOptions,
    output: str,
    no_values: bool,
    *,
    repair: bool,
    dry_run: bool,
) -> VerificationResult:
    from sluice.verify.repair import Repair
    from sluice.verify.session import Verification

    with progress(f"{pair.source.name} and {pair.sink.name}: rows") as show:
        with Verification(pair, worker, client, plugins, options, show, notice) as verification:
            found = verification.run()
            _print(found, output, no_values)
            if not repair or not found.difference_count:
                return found
            plan = Repair(verification.source, verification.sink, verification.path, client, options.kafka).plan(found)
            for line in plan.describe(with_values=not no_values):
                notice(line)
            if dry_run:
                notice("dry run: nothing was sent")
                return found
            plan.send()
        with Verification(pair, worker, client, plugins, options, show, notice) as verification:
            repaired = verification.run()
    notice(f"after the repair: {repaired.difference_count} differences")
    _print(repaired, output, no_values)
    return repaired


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())


def _store(client: ConnectClient, found: VerificationResult, *, quiet: bool) -> None:
    """Stores a result in the worker, without values of rows. Workers of Apache Kafka Connect have no such resource."""
    from connect.errors import ConnectError

    body = found.as_json(with_values=False, limit=0)
    for name in (found.sink, found.source):
        try:
            client.store_verification(name, body)
        except ConnectError as e:
            if not quiet:
                notice(f"the worker has not stored the result of {name}: {e.message}")


def _print(found: VerificationResult, output: str, no_values: bool) -> None:
    if output == "json":
        print_json(found.as_json(with_values=not no_values, limit=max(_SHOWN, found.difference_count)))
        return
    rows = []
    for table in found.tables:
        counts = table.counts()
        state = (
            "not compared" if table.problem else "equal" if table.is_equal else "DIFFERENT" if table.differences else "UNSETTLED"
        )
        figures = [counts[name] for name in ("missing", "extra", "changed", "duplicate")]
        rows.append([",".join(table.sources), table.target or None, table.rows, *figures, table.unsettled, state])
    print_table(["source", "target", "rows", "missing", "extra", "changed", "duplicate", "unsettled", "result"], rows)
    for table in found.tables:
        for note in (*((table.problem,) if table.problem else ()), *table.notes):
            notice(f"{table.target or ','.join(table.sources)}: {note}")
        if table.is_truncated:
            notice(f"{table.target}: there are more differences; see --max-differences")
        for one in table.differences[:_SHOWN]:
            key = ", ".join(f"{name}={value}" for name, value in one.key.items())
            changed = ", ".join(
                name if no_values else f"{name}: expected {_quoted(expected)}, found {_quoted(actual)}"
                for name, (expected, actual) in one.columns.items()
            )
            print(f"{table.target}: {one.kind.value} {key}{': ' + changed if changed else ''}")
        if len(table.differences) > _SHOWN:
            print(f"{table.target}: and {len(table.differences) - _SHOWN} more; -o json lists all")
    state = "equal" if found.is_equal else "NOT equal"
    notice(f"{found.source} and {found.sink} are {state} at {found.position or 'no position'}, in {found.seconds:.1f} s")


def _quoted(text: str | None) -> str:
    return "null" if text is None else repr(text)
