"""Services for all tests. Each starts at its first use.

All processes of a run share one broker and one schema registry (tests/support/services.py); a test that harms its broker is
marked ``harms_broker`` and gets another one. Each process has its own server of each kind of database; a test may kill or stop
it: the fixture restarts it for the next test, with the same port and data.
"""

from __future__ import annotations

import gc
import logging
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.randomness import SEED, size
from tests.support.registry import EmbeddedRegistry
from tests.support.services import ServiceOwner, SharedBroker, ensure_started, shared_registry

pytest_plugins = ["tests.support.selection"]

# The machine's load decides how long an example takes.
settings.register_profile("untimed", deadline=None, max_examples=size("SLUICE_EXAMPLES", 10))
settings.load_profile("untimed")


_owner = pytest.StashKey[ServiceOwner]()


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(SEED)
    # Background jobs of a shell ignore SIGINT, and nohup ignores SIGHUP. Processes that tests start would inherit that and ignore
    # the tests' signals; handlers are not inherited.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and not session.config.option.collectonly:
        session.config.stash[_owner] = ServiceOwner()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a process of pytest-xdist where the shared services are."""
    node.workerinput["shared_services"] = str(node.config.stash[_owner].folder)


def pytest_collection() -> None:
    # While tests are collected there is no garbage, and afterwards each full collection would take a second, because it visits
    # thousands of tests: so they stay frozen.
    gc.disable()


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    if (owner := config.stash.get(_owner, None)) is not None:
        owner.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true, a test fails where it would be skipped: what it needs must be there."""
    report = yield
    _share_loggers_of_pyspark()
    if report.skipped and not hasattr(report, "wasxfail") and os.environ.get("CI") == "true":
        report.outcome = "failed"
        report.longrepr = f"CI=true, but: {report.longrepr}"
    return report


def _share_loggers_of_pyspark() -> None:
    """Keeps pytest from adding its handlers to the loggers of PySpark, which would change their format for later tests."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        if logger := logging.Logger.manager.loggerDict.get(name):
            assert isinstance(logger, logging.Logger)
            logger.propagate = True


@pytest.fixture(scope="session")
def shared_services(pytestconfig: pytest.Config) -> Path:
    """The directory of the servers that all processes of the run share."""
    given = getattr(pytestconfig, "workerinput", None)
    return Path(given["shared_services"]) if given is not None else pytestconfig.stash[_owner].folder


@pytest.fixture(scope="session")
def services_dir() -> Iterator[Path]:
    """A directory for the servers of this process."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _broker(shared_services: Path) -> EmbeddedBroker:
    ensure_started(shared_services, "broker")
    return SharedBroker(shared_services)


@pytest.fixture(scope="session")
def _own_broker(services_dir: Path) -> Iterator[EmbeddedBroker]:
    server = EmbeddedBroker(services_dir / "broker", dies_with_parent=True, short_lived=True)
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _postgres(services_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(services_dir / "postgres", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _mariadb(services_dir: Path) -> Iterator[EmbeddedMariaDB]:
    server = EmbeddedMariaDB(services_dir / "mariadb", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> EmbeddedBroker:
    """A running broker: ``.bootstrap``, ``.port``. A test marked ``harms_broker`` may also call ``.kill()``, ``.stop()``,
    ``.start()``, and ``.restart()``."""
    harms = request.node.get_closest_marker("harms_broker") is not None
    found: EmbeddedBroker = request.getfixturevalue("_own_broker" if harms else "_broker")
    found.start()
    return found


@pytest.fixture
def postgres(_postgres: EmbeddedPostgres) -> EmbeddedPostgres:
    """The session's PostgreSQL, running: ``.host .port .user .password``, ``.dsn(db)``, ``.connect(db)``, ``.kill()`` ..."""
    _postgres.start()
    return _postgres


@pytest.fixture
def mariadb(_mariadb: EmbeddedMariaDB) -> EmbeddedMariaDB:
    """The session's MariaDB, running: ``.host .port .user .password``, ``.url(db)``, ``.connect(db)``, ``.kill()`` ..."""
    _mariadb.start()
    return _mariadb


@pytest.fixture(scope="session")
def registry(shared_services: Path) -> EmbeddedRegistry:
    """The schema registry of the whole run: ``.url``, ``.port``."""
    ensure_started(shared_services, "registry")
    return shared_registry(shared_services)


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Creates unique names for topics, groups, slots, and tables: ``unique_name("orders")`` -> ``orders_3f9c01ab``."""

    def name(stem: str) -> str:
        return f"{stem}_{uuid.uuid4().hex[:8]}"

    return name


@pytest.fixture
def database(postgres: EmbeddedPostgres, unique_name: Callable[[str], str]) -> Iterator[str]:
    """The name of a new, empty database. Dropped at the end with its replication slots."""
    name = unique_name("db")
    postgres.create_database(name)
    yield name
    postgres.start()  # the test may have stopped it
    postgres.drop_database(name)


@pytest.fixture
def mariadb_database(mariadb: EmbeddedMariaDB, unique_name: Callable[[str], str]) -> Iterator[str]:
    """The name of a new, empty database in MariaDB. Dropped at the end with its connections."""
    name = unique_name("db")
    mariadb.create_database(name)
    yield name
    mariadb.start()  # the test may have stopped it
    mariadb.drop_database(name)
