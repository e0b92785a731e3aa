"""``sluice demo``, ``sluice up``, ``sluice down``: the whole pipeline on embedded parts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from sluice.cli.output import notice, output_option, print_json

if TYPE_CHECKING:
    from sluice.demo.environment import Sizes, Stage
    from sluice.demo.run import Result

_home = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder for everything [default: ~/.local/share/sluice]",
)
_small = click.option("--small", is_flag=True, help="A shop of a hundredth of the size, for a slow machine.")


def _sizes(small: bool) -> Sizes:
    from sluice.demo.environment import Sizes

    return Sizes(1_000, 3_000, 2_000, 100) if small else Sizes()


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running at the end, as 'sluice up' does.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="How long changes are made.")
@_small
@_home
@output_option
def demo(keep: bool, seconds: float, small: bool, data_dir: Path | None, output: str) -> int:
    """Copy a PostgreSQL shop into Spark tables, change it while you watch, and prove both equal.

    The last line on stdout is one JSON object. Exit code 0 means: every table equals the database.
    """
    from sluice.cli.setup import fetch_jars
    from sluice.demo.display import Display
    from sluice.demo.environment import new_home
    from sluice.demo.run import run_demo
    from sluice.embedded.locations import data_home

    for jar_set in ("kafka", "spark"):
        fetch_jars(jar_set)
    base = data_dir or data_home()
    home = base / "up" if keep else new_home(base)
    if keep:
        _refuse_second(home)
    try:
        result = run_demo(home, _sizes(small), seconds, Display(), keep=keep)
    except BaseException:
        notice(f"what the run left is in {home}; its worker's log is {home / 'worker.log'}")
        raise
    if output == "text":
        _print_summary(result, home, keep)
    print_json(result.as_json())
    return 0 if result.equal else 1


@click.command()
@_small
@_home
@output_option
def up(small: bool, data_dir: Path | None, output: str) -> None:
    """Start broker, database with a shop in it, and a worker that copies it into Delta tables; print their addresses.

    They run until 'sluice down'. Started again over the same folder, they carry on where they were.
    """
    from sluice.cli.setup import fetch_jars
    from sluice.demo.display import Display
    from sluice.demo.run import start_stage

    for jar_set in ("kafka", "spark"):
        fetch_jars(jar_set)
    stage = _stage(data_dir, small)
    if not stage.worker_running:
        try:
            start_stage(stage, Display()).close()
        except BaseException:
            stage.stop()
            raise
    _print_addresses(stage, output)


@click.command()
@_home
@output_option
def down(data_dir: Path | None, output: str) -> None:
    """Stop what 'sluice up' started. The data stays, for the next 'sluice up'."""
    stage = _stage(data_dir, small=False)
    ran = stage.worker_running or stage.broker.running or stage.database.running
    stage.stop()
    if output == "json":
        print_json({"stopped": ran, "data_dir": str(stage.home)})
    else:
        notice(f"stopped; the data stays in {stage.home}" if ran else "nothing was running")


def _stage(data_dir: Path | None, small: bool) -> Stage:
    from sluice.demo.environment import Stage
    from sluice.embedded.locations import data_home

    return Stage((data_dir or data_home()) / "up", _sizes(small), tied=False)


def _refuse_second(home: Path) -> None:
    from connect.errors import IllegalStateError
    from sluice.demo.environment import Stage

    if home.exists():
        stage = Stage(home, _sizes(small=True), tied=False)
        if stage.worker_running or stage.broker.running or stage.database.running:
            raise IllegalStateError(f"something already runs from {home}; stop it with 'sluice down'")
        raise IllegalStateError(f"{home} holds an earlier run; go on with it by 'sluice up', or delete the folder")


def _print_addresses(stage: Stage, output: str) -> None:
    addresses = {
        "rest": stage.rest_url,
        "kafka": stage.broker.bootstrap,
        "postgres": f"postgresql://{stage.database.user}@{stage.database.host}:{stage.database.port}/{stage.database.database}",
        "password_file": str(stage.database.data_dir / "password"),
        "tables": str(stage.lake),
        "log": str(stage.worker_log),
    }
    if output == "json":
        print_json(addresses)
        return
    print(f"REST API    {addresses['rest']}/connectors?expand=status")
    print(f"Kafka       {addresses['kafka']}")
    print(f"PostgreSQL  {addresses['postgres']}  (password in {addresses['password_file']})")
    print(f"Tables      {addresses['tables']}")
    print(f"Log         {addresses['log']}")
    print("Stop with   sluice down")


def _print_summary(result: Result, home: Path, keep: bool) -> None:
    changes = result.changes
    latency = result.latency_ms
    print()
    print(f"{'Equal' if result.equal else 'NOT EQUAL'}: {len(result.comparisons)} tables, {result.rows:,} rows.")
    print(f"Snapshot      {result.snapshot_s:.1f} s to the tables, {result.rate_per_s:,.0f} rows a second")
    print(
        f"Live changes  {changes['transactions']:,} transactions: {changes['inserts']:,} inserts, {changes['updates']:,} updates,"
        f" {changes['deletes']:,} deletes, {changes['key_changes']:,} key changes, 1 column added"
    )
    if latency.get("p50") is not None:
        print(f"Latency       commit to visible in the table: p50 {latency['p50']:,.0f} ms, p99 {latency['p99']:,.0f} ms")
    print(f"Tables        {result.lake}")
    print()
    print("Next:")
    if keep:
        print("  curl the address of the REST API above, with /connectors?expand=status")
        print("  sluice down")
    else:
        print("  make up                        the same parts, left running; prints their addresses")
        print("  curl <REST>/connectors?expand=status")
        print("  curl -X PUT <REST>/connectors/shop-tables/pause")
        print("  sluice topic ls --bootstrap-server <Kafka>")
        print("  make down                      stop them")
    print(f"Delete {home} when you have seen enough.")
