"""``sluice doctor``: what is installed, reachable, and wrong, with the fix."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import click

from connect.errors import ConnectError
from sluice.cli.connection import bootstrap_options, client_properties
from sluice.cli.errors import FAILED
from sluice.cli.output import as_dict, emit, output_option

GOOD, NOTE, BAD = "ok", "note", "wrong"

_PACKAGES = (
    "confluent_kafka", "kafka", "pyspark", "delta", "psycopg", "fastapi", "uvicorn", "orjson", "pyarrow", "javaproperties",
)  # fmt: skip
_NEEDED_DISK_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing looked at. ``fix`` is what to do, empty when nothing is to be done."""

    what: str
    state: str
    found: str
    fix: str = ""


@click.command()
@bootstrap_options
@output_option
def doctor(bootstrap_server: str, command_config: Path | None, output: str) -> int:
    """Check Python, packages, Java, jars, the embedded parts and the broker. Exit code 1 when something is wrong.

    A broker that does not answer is a note, not wrong: not every machine runs one.
    """
    findings = list(examine(client_properties(bootstrap_server, command_config)))
    columns = ["what", "state", "found", "fix"]
    emit(output, [as_dict(one) for one in findings], columns, [[one.what, one.state, one.found, one.fix] for one in findings])
    return FAILED if any(one.state == BAD for one in findings) else 0


def examine(properties: dict[str, str]) -> Iterator[Finding]:
    """All findings, in the order in which one depends on the other."""
    yield _python()
    yield from _packages()
    yield from _drivers()
    yield _disk()
    yield _guarded("java", _java)
    from sluice.embedded.jarsets import sets_for_this_machine

    for name in sets_for_this_machine():
        yield _jars(name)
    yield _guarded("embedded PostgreSQL", _postgres)
    yield _embedded_broker()
    yield _guarded("broker", lambda: _cluster(properties), failure=NOTE)


def _guarded(what: str, look: Callable[[], Finding], failure: str = BAD) -> Finding:
    try:
        return look()
    except ConnectError as error:
        return Finding(what, failure, "not usable", error.message)


def _python() -> Finding:
    found = f"{platform.python_version()} in {sys.prefix}"
    good = sys.version_info >= (3, 11)
    return Finding("python", GOOD if good else BAD, found, "" if good else "install Python 3.11 or later")


def _packages() -> Iterator[Finding]:
    from importlib.util import find_spec

    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        yield Finding("packages", BAD, f"missing: {', '.join(missing)}", "install sluice-connect again, or run make setup")
    else:
        yield Finding("packages", GOOD, f"{len(_PACKAGES)} of {len(_PACKAGES)} found")


def _drivers() -> Iterator[Finding]:
    """One for each database that SQL connectors reach. A driver that is missing is a note: not everybody has each database."""
    import importlib

    # By name, as all that belongs to a connector.
    drivers = importlib.import_module("connectors.jdbc.urls.drivers")
    for database, found, fix in drivers.installed():
        yield Finding(f"driver: {database}", GOOD if found else NOTE, found or "not installed", fix)


def _disk() -> Finding:
    from sluice.embedded.locations import cache_dir

    folder = cache_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free for {folder}"
    if free < _NEEDED_DISK_BYTES:
        return Finding("disk", NOTE, found, "free some space, or set SLUICE_CACHE_DIR and SLUICE_DATA_DIR to another disk")
    return Finding("disk", GOOD, found)


def _java() -> Finding:
    from sluice.embedded.java import find_java

    java = find_java()
    if java is None:
        return Finding("java", BAD, "none of version 17 or later", "run 'sluice setup', or set JAVA_HOME")
    return Finding("java", GOOD, f"{java.version} in {java.home}")


def _jars(name: str) -> Finding:
    from sluice.embedded import jars

    found = jars.cached_jars(name)
    what = f"jars: {jars.jar_set(name).purpose}"
    if found is None:
        return Finding(what, NOTE, "not fetched yet", "run 'sluice setup'")
    return Finding(what, GOOD, f"{len(found)} in {found[0].parent}")


def _postgres() -> Finding:
    from sluice.embedded.postgres import binary_dir

    return Finding("embedded PostgreSQL", GOOD, str(binary_dir()))


def _embedded_broker() -> Finding:
    from sluice.embedded.broker import EmbeddedBroker
    from sluice.embedded.locations import data_home

    broker = EmbeddedBroker(data_home() / "broker")
    if not broker.running:
        return Finding("embedded broker", GOOD, "not running")
    if not broker.answers():
        return Finding("embedded broker", BAD, f"pid {broker.pid} does not answer", f"see {broker.log_file}")
    return Finding("embedded broker", GOOD, f"{broker.bootstrap}, pid {broker.pid}")


def _cluster(properties: dict[str, str]) -> Finding:
    from worker.kafka.admin import KafkaAdmin

    topics = KafkaAdmin(properties, timeout_s=3.0).topic_names()
    return Finding("broker", GOOD, f"{properties['bootstrap.servers']} answers, {len(topics)} topics")
