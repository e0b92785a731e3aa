"""``sluice demo``, ``sluice up``, ``sluice down``: the whole pipeline on embedded services."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from connect.extras import require_extra
from sluice.cli.output import notice, output_option, print_json

if TYPE_CHECKING:
    from sluice.demo.environment import DemoEnvironment
    from sluice.demo.run import DemoResult
    from sluice.demo.shops.shop import Sizes

_home = click.option(
    "--data-dir",
    type=click.Path(path_type=Path, file_okay=False),
    help="Directory for all data [default: ~/.local/share/sluice]",
)
_small = click.option("--small", is_flag=True, help="A shop of 1/100 of the size, for a slow machine.")


def _sizes(small: bool) -> Sizes:
    from sluice.demo.shops.shop import Sizes

    return Sizes(1_000, 3_000, 2_000, 100) if small else Sizes()


@click.command()
@click.option("--keep", is_flag=True, help="Leave everything running at the end, like 'sluice up'.")
@click.option("--seconds", type=click.FloatRange(1, 3600), default=30.0, show_default=True, help="Duration of live changes.")
@_small
@_home
@output_option
def demo(keep: bool, seconds: float, small: bool, data_dir: Path | None, output: str) -> int:
    """Replicate a shop in a database into Spark tables, apply live changes, and verify that both are equal.

    The last line on stdout is one JSON object. Exit code 0 means that every table equals the database.
    """
    require_extra("embedded", "sluice demo")
    from sluice.cli.setup import fetch_jars
    from sluice.demo.display import Display
    from sluice.demo.environment import demo_jar_sets, demo_uses_cluster, demo_uses_kafka, new_home
    from sluice.demo.run import run_demo
    from sluice.embedded.directories import data_home

    demo_uses_cluster()  # raises before anything is fetched
    if keep:
        _require_kafka("--keep")
    fetch_jars(*demo_jar_sets())
    base = data_dir or data_home()
    home = base / "up" if keep else new_home(base)
    if keep:
        _require_unused(home)
    try:
        result = run_demo(home, _sizes(small), seconds, Display(), keep=keep)
    except BaseException:
        notice(f"files of the run are in {home}; the log is {home / 'worker.log'}")
        raise
    if output == "text":
        _print_summary(result, home, keep, uses_kafka=demo_uses_kafka())
    print_json(result.as_json())
    return 0 if result.equal else 1


@click.command()
@_small
@_home
@output_option
def up(small: bool, data_dir: Path | None, output: str) -> None:
    """Start a broker, a database with a shop, and a worker that replicates it into Delta tables; print their addresses.

    They run until 'sluice down'. Another 'sluice up' with the same directory continues where they stopped.
    """
    require_extra("embedded", "sluice up")
    from sluice.cli.setup import fetch_jars
    from sluice.demo.display import Display
    from sluice.demo.environment import demo_jar_sets
    from sluice.demo.run import start_environment

    _require_kafka("sluice up")
    environment = _environment(data_dir, small)
    fetch_jars(*demo_jar_sets(environment.home))
    if not environment.worker_running:
        try:
            start_environment(environment, Display()).close()
        except BaseException:
            environment.stop()
            raise
    _print_addresses(environment, output)


@click.command()
@_home
@output_option
def down(data_dir: Path | None, output: str) -> None:
    """Stop the services that 'sluice up' started. The data remains for the next 'sluice up'."""
    environment = _environment(data_dir, small=False)
    ran = environment.running
    environment.stop()
    if output == "json":
        print_json({"stopped": ran, "data_dir": str(environment.home)})
    else:
        notice(f"stopped; the data remains in {environment.home}" if ran else "nothing was running")


def _environment(data_dir: Path | None, small: bool) -> DemoEnvironment:
    require_extra("embedded", "The demo")
    from sluice.demo.environment import DemoEnvironment
    from sluice.embedded.directories import data_home

    return DemoEnvironment((data_dir or data_home()) / "up", _sizes(small), dies_with_parent=False)


def _require_kafka(what: str) -> None:
    """Raises ConfigError when the demo is to run without Kafka, which ``what`` cannot."""
    from connect.errors import ConfigError
    from sluice.demo.environment import KAFKA_VARIABLE, demo_uses_kafka

    if not demo_uses_kafka():
        raise ConfigError(f"{what} starts a broker and a worker that continue to run; unset {KAFKA_VARIABLE}")


def _require_unused(home: Path) -> None:
    from connect.errors import IllegalStateError
    from sluice.demo.environment import DemoEnvironment

    if home.exists():
        environment = DemoEnvironment(home, _sizes(small=True), dies_with_parent=False)
        if environment.running:
            raise IllegalStateError(f"something already runs from {home}; stop it with 'sluice down'")
        raise IllegalStateError(f"{home} contains an earlier run; continue it with 'sluice up', or delete the directory")


def _print_addresses(environment: DemoEnvironment, output: str) -> None:
    addresses = {
        "rest": environment.rest_url,
        "kafka": environment.broker.bootstrap,
        environment.shop.kind: environment.shop.url,
        "password_file": str(environment.shop.server.data_dir / "password"),
        "tables": str(environment.lake),
        "log": str(environment.worker_log),
    }
    if output == "json":
        print_json(addresses)
        return
    print(f"REST API    {addresses['rest']}/connectors?expand=status")
    print(f"Kafka       {addresses['kafka']}")
    print(f"{environment.shop.product:<10}  {environment.shop.url}  (password in {addresses['password_file']})")
    print(f"Tables      {addresses['tables']}")
    print(f"Log         {addresses['log']}")
    print("Stop with   sluice down")


def _print_summary(result: DemoResult, home: Path, keep: bool, *, uses_kafka: bool) -> None:
    changes = result.changes
    latency = result.latency_ms
    print()
    print(f"{'Equal' if result.equal else 'NOT EQUAL'}: {len(result.comparisons)} tables, {result.rows:,} rows.")
    print(f"Snapshot      {result.snapshot_s:.1f} s to the tables, {result.rate_per_s:,.0f} rows/s")
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
    elif not uses_kafka:
        print("  docs/spark-data-source.md      read a source connector of your own with Spark")
        print("  docs/spark-data-source.ipynb   the same as a notebook")
        print("  make demo                      the same with Kafka and a worker, without SLUICE_DEMO_KAFKA=off")
    else:
        print("  make up                        start the same services and print their addresses")
        print("  curl <REST>/connectors?expand=status")
        print("  curl -X PUT <REST>/connectors/shop-tables/pause")
        print("  sluice topic ls --bootstrap-server <Kafka>")
        print("  make down                      stop them")
    print(f"Delete {home} when you no longer need it.")
