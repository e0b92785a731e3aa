"""``sluice setup``: fetches and prepares the embedded services."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from connect.extras import require_extra
from sluice.cli.output import notice, output_option, print_json
from sluice.cli.progress import progress, waiting

if TYPE_CHECKING:
    from sluice.embedded.java import Java

# By name, because nothing imports connectors.
_SPARK_ARCHIVE = "connectors.spark.session.archive_training"


def fetch_jars(*names: str) -> None:
    """Fetches sets of JARs, with progress on stderr, unless they are cached. Fetches none if one is not for this machine."""
    from sluice.embedded import jars
    from sluice.embedded.java import ensure_java

    for name in names:
        jars.require_machine(name)
    for name in names:
        if jars.cached_jars(name) is not None:
            continue
        require_extra("embedded", f"Fetching {jars.jar_set(name).purpose}")
        ensure_java(notice)
        with progress(f"Fetching {jars.jar_set(name).purpose}") as show:
            jars.ensure_jars(name, show)


def _prepare_spark(java: Java) -> None:
    """Has the Spark connector create its class archive, unless it exists. The archive is optional: a failure is only reported."""
    from sluice.embedded import jars
    from sluice.embedded.directories import cache_dir

    if not any(cache_dir().glob("spark-*.jsa")):
        notice("Preparing Spark for fast startup")
    spark_jars = str(jars.folder_of(jars.jar_set("spark")))
    with waiting("Preparing Spark"):
        result = subprocess.run(
            [sys.executable, "-m", _SPARK_ARCHIVE],
            env={**os.environ, "JAVA_HOME": str(java.home), "SLUICE_SPARK_JARS": spark_jars},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        last = (result.stderr.strip().splitlines() or [f"exit code {result.returncode}"])[-1]
        notice(f"Spark will start slower, because its class archive could not be created: {last}")


@click.command()
@click.option("--s3", is_flag=True, help="Also fetch the JARs with which Spark writes Delta tables on S3.")
@click.option("--iceberg", is_flag=True, help="Also fetch the JAR with which Spark writes Iceberg tables (48 MB).")
@click.option("--mariadb", is_flag=True, help="Also fetch MariaDB, for SLUICE_DEMO_DATABASE=mariadb (149 MB).")
@output_option
def setup(output: str, s3: bool, iceberg: bool, mariadb: bool) -> None:
    """Find or install Java, fetch the JARs of Kafka and Spark, prepare the embedded broker and Spark, and check PostgreSQL.

    Safe to run again: completed steps are skipped. Needs the network only the first time.
    """
    require_extra("embedded", "sluice setup")
    from sluice.embedded import class_archive, jars, postgres
    from sluice.embedded.broker import create_class_archive
    from sluice.embedded.jar_sets import JAR_SETS
    from sluice.embedded.java import ensure_java

    options = {"", *(["--s3"] if s3 else []), *(["--iceberg"] if iceberg else []), *(["--mariadb"] if mariadb else [])}
    wanted = {name: jar_set for name, jar_set in JAR_SETS.items() if jar_set.option in options}
    for name in wanted:
        jars.require_machine(name)  # before Java is installed
    started_at = time.monotonic()
    with waiting("Looking for Java"):
        java = ensure_java(notice)
    fetch_jars(*wanted)
    if not class_archive.exists(java):
        notice("Preparing the embedded broker for fast startup")
        with waiting("Preparing the broker"):
            create_class_archive(java)
    _prepare_spark(java)
    binaries = postgres.binary_dir()
    seconds = round(time.monotonic() - started_at, 1)
    if output == "json":
        folders = {name: str(jars.folder_of(jar_set)) for name, jar_set in wanted.items()}
        print_json({"java": str(java.executable), "jars": folders, "postgres": str(binaries), "seconds": seconds})
    else:
        notice(f"Ready: Java {java.version}, {', '.join(one.purpose for one in wanted.values())}, PostgreSQL ({seconds:g} s)")
