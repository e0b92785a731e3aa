"""``sluice setup``: everything the embedded parts need, fetched and prepared once."""

from __future__ import annotations

import time

import click

from sluice.cli.output import notice, output_option, print_json, progress


def fetch_jars(name: str) -> None:
    """Fetch a set of jars unless it is here, with progress on stderr. Instant and silent when it is."""
    from sluice.embedded import jars
    from sluice.embedded.java import ensure_java

    if jars.cached_jars(name) is not None:
        return
    ensure_java(notice)
    with progress(f"Fetching {jars.jar_set(name).purpose}") as show:
        jars.ensure_jars(name, show)


@click.command()
@output_option
def setup(output: str) -> None:
    """Find or install Java, fetch Kafka, Spark, a schema registry and MariaDB, prepare the broker and check PostgreSQL.

    Safe to run again: what is done is not done twice. Needs the network the first time only.
    """
    from sluice.embedded import class_archive, jars, postgres
    from sluice.embedded.jarsets import sets_for_this_machine
    from sluice.embedded.java import ensure_java

    began = time.monotonic()
    java = ensure_java(notice)
    sets = sets_for_this_machine()
    for name in sets:
        fetch_jars(name)
    if not class_archive.present(java):
        notice("Preparing the embedded broker for a fast start")
        class_archive.make(java)
    binaries = postgres.binary_dir()
    seconds = round(time.monotonic() - began, 1)
    if output == "json":
        folders = {name: str(jars.folder_of(jar_set)) for name, jar_set in sets.items()}
        print_json({"java": str(java.executable), "jars": folders, "postgres": str(binaries), "seconds": seconds})
    else:
        notice(f"Ready: Java {java.version}, {', '.join(one.purpose for one in sets.values())}, PostgreSQL ({seconds:g} s)")
