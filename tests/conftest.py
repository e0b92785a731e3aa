"""Real parts for all tests: one broker and one database server of a kind a session, in a folder that goes when the session ends.

Each is started at its first use. A test may kill or stop one: the fixture starts it again for the next test, on the same
port and data.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sluice.embedded.broker import EmbeddedBroker
from sluice.embedded.postgres import EmbeddedPostgres
from tests.support.mariadb import EmbeddedMariaDB
from tests.support.registry import EmbeddedRegistry


def pytest_configure() -> None:
    # A shell lets its background jobs ignore Ctrl-C, nohup a hang-up, and so would what tests start and send such signals to. A
    # handler is not inherited.
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture(scope="session")
def parts_dir() -> Iterator[Path]:
    """A folder for the session's servers."""
    folder = Path(tempfile.mkdtemp(prefix="sluice-tests-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _broker(parts_dir: Path) -> Iterator[EmbeddedBroker]:
    server = EmbeddedBroker(parts_dir / "broker", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _postgres(parts_dir: Path) -> Iterator[EmbeddedPostgres]:
    server = EmbeddedPostgres(parts_dir / "postgres", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture(scope="session")
def _mariadb(parts_dir: Path) -> Iterator[EmbeddedMariaDB]:
    server = EmbeddedMariaDB(parts_dir / "mariadb", dies_with_parent=True)
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
def _registry(parts_dir: Path) -> Iterator[EmbeddedRegistry]:
    server = EmbeddedRegistry(parts_dir / "registry", dies_with_parent=True)
    server.start()
    yield server
    server.remove()


@pytest.fixture
def registry(_registry: EmbeddedRegistry) -> EmbeddedRegistry:
    """The session's schema registry, running: ``.url``, ``.port``, ``.kill()``, ``.start()``. It forgets all when it ends."""
    _registry.start()
    return _registry


@pytest.fixture
def unique_name() -> Callable[[str], str]:
    """Makes names nobody else uses, for topics, groups, slots and tables: ``unique_name("orders")`` -> ``orders_3f9c01ab``."""

    def name(stem: str) -> str:
        return f"{stem}_{uuid.uuid4().hex[:8]}"

    return name


@pytest.fixture
def database(postgres: EmbeddedPostgres, unique_name: Callable[[str], str]) -> Iterator[str]:
    """The name of an empty database of this test's own. Dropped at the end with its replication slots."""
    name = unique_name("db")
    postgres.create_database(name)
    yield name
    postgres.start()  # the test may have left it down
    postgres.drop_database(name)


@pytest.fixture
def mariadb_database(mariadb: EmbeddedMariaDB, unique_name: Callable[[str], str]) -> Iterator[str]:
    """The name of an empty database of this test's own in MariaDB. Dropped at the end with the connections to it."""
    name = unique_name("db")
    mariadb.create_database(name)
    yield name
    mariadb.start()  # the test may have left it down
    mariadb.drop_database(name)
