"""Services for all tests: one broker, and one server of each kind of database, per session, in a temporary directory.

Each starts at its first use. A test may kill or stop one: the fixture restarts it for the next test, with the same port and data.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.mariadb import EmbeddedMariaDB
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.registry import EmbeddedRegistry

# The machine's load decides how long an example takes.
settings.register_profile("untimed", deadline=None, max_examples=int(os.environ.get("SLUICE_EXAMPLES", "40")))
settings.load_profile("untimed")


def pytest_configure() -> None:
    # Background jobs of a shell ignore SIGINT, and nohup ignores SIGHUP. Processes that tests start would inherit that and ignore
    # the tests' signals; handlers are not inherited.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "SLUICE_CHAOS_KILLS" not in os.environ:
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]


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
def services_dir() -> Iterator[Path]:
    """A directory for the session's servers."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _broker(services_dir: Path) -> Iterator[EmbeddedBroker]:
    server = EmbeddedBroker(services_dir / "broker", dies_with_parent=True, short_lived=True)
    server.start()
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
def broker(_broker: EmbeddedBroker) -> EmbeddedBroker:
    """The session's broker, running: ``.bootstrap``, ``.port``, ``.kill()``, ``.stop()``, ``.start()``, ``.restart()``."""
    _broker.start()
    return _broker


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
def _registry(services_dir: Path) -> Iterator[EmbeddedRegistry]:
    server = EmbeddedRegistry(services_dir / "registry", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def registry(_registry: EmbeddedRegistry) -> EmbeddedRegistry:
    """The session's schema registry, running: ``.url``, ``.port``, ``.kill()``, ``.start()``. Its data is lost when it stops."""
    _registry.start()
    return _registry


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
