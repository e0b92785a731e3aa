"""``sluice doctor``: checks installation and connections, and suggests fixes."""

from __future__ import annotations

import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from connect.errors import ConnectError
from connect.extras import EXTRAS, install_command, missing_modules
from sluice.cli.connection import bootstrap_options, client_properties
from sluice.cli.errors import FAILED
from sluice.cli.output import as_dict, emit, named_option, notice, print_names

if TYPE_CHECKING:
    from sluice.cli.external_systems import SystemAnswer

GOOD, NOTE, BAD = "ok", "note", "wrong"

_PACKAGES = ("confluent_kafka", "kafka", "fastapi", "uvicorn", "orjson", "javaproperties", "yaml", "cryptography", "httpx")
_NEEDED_DISK_BYTES = 2_000_000_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of one check. ``fix`` is empty when nothing is to be done."""

    what: str
    state: str
    found: str
    fix: str = ""


@click.command()
@click.argument("connectors", nargs=-1, type=click.Path(), metavar="[CONNECTOR...]")
@click.option("--worker", "worker_file", metavar="FILE", help="Worker file with config providers and address rules.")
@bootstrap_options
@named_option
def doctor(
    connectors: tuple[str, ...], worker_file: str | None, bootstrap_server: str, command_config: Path | None, output: str
) -> int:
    """Check Python, packages, extras, Java, JARs, the embedded services, and the broker. Exit code 1 if something is wrong.

    With files of connectors, test their connections instead, from this machine: address, user, privileges, tables, and what else
    the connector needs. Nothing is created.

    A broker that does not respond is only a note: not every machine runs one. With -o name, only what is wrong is printed.
    """
    if connectors:
        from sluice.cli.external_systems import SystemAnswer, ask_about_file
        from worker.model import SystemQuestion

        answers, errors = list[SystemAnswer](), list[ConnectError]()
        for path in connectors:
            try:
                answers.append(ask_about_file(path, worker_file, SystemQuestion.CONNECTION_TEST))
            except ConnectError as e:
                errors.append(e)
        findings = [one for answer in answers for one in read_steps(answer)]
        if answers:
            _print(findings, output, [answer.as_json() for answer in answers])
        for other in errors[1:]:
            notice(other.message)
        if errors:
            raise errors[0]
    else:
        findings = list(examine(client_properties(bootstrap_server, command_config)))
        _print(findings, output, [as_dict(one) for one in findings])
    return FAILED if any(one.state == BAD for one in findings) else 0


def _print(findings: Sequence[CheckResult], output: str, value: list[dict[str, Any]]) -> None:
    if output == "name":
        print_names(one.what for one in findings if one.state == BAD)
    else:
        rows = [[one.what, one.state, one.found, one.fix] for one in findings]
        emit(output, value, ["what", "state", "found", "fix"], rows)


def read_steps(answer: SystemAnswer) -> Iterator[CheckResult]:
    """Yields a result for each step of a connection test."""
    states = {"passed": GOOD, "warning": NOTE, "skipped": NOTE, "failed": BAD}
    for step in answer.content["steps"]:
        problems = step["findings"]
        found = [step["detail"], *(f"{answer.file.location(one['path'])}: {one['message']}" for one in problems)]
        fixes = "; ".join(one["suggestion"] for one in problems if one["suggestion"])
        yield CheckResult(f"{answer.name}: {step['name']}", states[step["state"]], "; ".join(filter(None, found)), fixes)


def examine(properties: dict[str, str]) -> Iterator[CheckResult]:
    """Yields all results, each after those it depends on."""
    yield _python()
    yield from _packages()
    yield from _drivers()
    yield _disk()
    if not missing_modules("spark"):
        yield _guarded("java", _java)
    if not missing_modules("embedded"):
        from sluice.embedded.jar_sets import JAR_SETS

        for name in JAR_SETS:
            yield _jars(name)
        yield _guarded("embedded PostgreSQL", _postgres)
        yield _embedded_broker()
    yield _guarded("broker", lambda: _cluster(properties), failure=NOTE)


def _guarded(what: str, look: Callable[[], CheckResult], failure: str = BAD) -> CheckResult:
    try:
        return look()
    except ConnectError as error:
        return CheckResult(what, failure, "not usable", error.message)


def _python() -> CheckResult:
    found = f"{platform.python_version()} in {sys.prefix}"
    good = sys.version_info >= (3, 11)
    return CheckResult("python", GOOD if good else BAD, found, "" if good else "install Python 3.11 or later")


def _packages() -> Iterator[CheckResult]:
    from importlib.util import find_spec

    missing = [name for name in _PACKAGES if find_spec(name) is None]
    if missing:
        yield CheckResult("packages", BAD, f"missing: {', '.join(missing)}", "reinstall sluice-connect, or run make setup")
    else:
        yield CheckResult("packages", GOOD, f"{len(_PACKAGES)} of {len(_PACKAGES)} found")
    for name, extra in EXTRAS.items():
        absent = missing_modules(name)
        what = f"extra: {name}"
        if absent:
            # Few users need every extra.
            yield CheckResult(what, NOTE, f"missing for {extra.purpose}: {', '.join(absent)}", install_command(name))
        else:
            yield CheckResult(what, GOOD, f"installed: {extra.purpose}")


def _drivers() -> Iterator[CheckResult]:
    """Yields a result for each database of the JDBC connectors. A missing driver is a note: few users have every database."""
    import importlib

    if missing_modules("jdbc"):
        return
    # By name, like everything that belongs to a connector.
    drivers = importlib.import_module("connectors.jdbc.urls.drivers")
    for database, found, fix in drivers.installed():
        yield CheckResult(f"driver: {database}", GOOD if found else NOTE, found or "not installed", fix)


def _disk() -> CheckResult:
    from sluice.embedded.directories import cache_dir

    folder = cache_dir()
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    found = f"{free / 1e9:.1f} GB free for {folder}"
    if free < _NEEDED_DISK_BYTES:
        return CheckResult("disk", NOTE, found, "free some space, or set SLUICE_CACHE_DIR and SLUICE_DATA_DIR to another disk")
    return CheckResult("disk", GOOD, found)


def _java() -> CheckResult:
    from sluice.embedded.java import find_java

    java = find_java()
    if java is None:
        return CheckResult("java", BAD, "none of version 17 or later", "run 'sluice setup', or set JAVA_HOME")
    return CheckResult("java", GOOD, f"{java.version} in {java.home}")


def _jars(name: str) -> CheckResult:
    from sluice.embedded import jars

    found = jars.cached_jars(name)
    wanted = jars.jar_set(name)
    what = f"jars: {wanted.purpose}"
    if found is None:
        return CheckResult(what, NOTE, "not fetched yet", f"run 'sluice setup {wanted.option}".rstrip() + "'")
    return CheckResult(what, GOOD, f"{len(found)} in {found[0].parent}")


def _postgres() -> CheckResult:
    from sluice.embedded.postgres import binary_dir

    return CheckResult("embedded PostgreSQL", GOOD, str(binary_dir()))


def _embedded_broker() -> CheckResult:
    from sluice.embedded.broker import EmbeddedBroker
    from sluice.embedded.directories import data_home

    broker = EmbeddedBroker(data_home() / "broker")
    if not broker.running:
        return CheckResult("embedded broker", GOOD, "not running")
    if not broker.answers():
        return CheckResult("embedded broker", BAD, f"pid {broker.pid} does not respond", f"see {broker.log_file}")
    return CheckResult("embedded broker", GOOD, f"{broker.bootstrap}, pid {broker.pid}")


def _cluster(properties: dict[str, str]) -> CheckResult:
    from worker.kafka.admin import KafkaAdmin

    topics = KafkaAdmin(properties, timeout_s=3.0).topic_names()
    return CheckResult("broker", GOOD, f"{properties['bootstrap.servers']} responds, {len(topics)} topics")
