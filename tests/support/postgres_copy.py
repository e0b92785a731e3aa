"""Copies of a PostgreSQL server: standbys and backups."""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path

from sluice.embedded import process
from sluice.embedded.postgres import EmbeddedPostgres, binary_dir


class ServerCopy:
    """A copy of a server as of a moment, which is started and promoted later."""

    def __init__(self, server: EmbeddedPostgres, directory: Path, **settings: str) -> None:
        self.server = EmbeddedPostgres(directory, dies_with_parent=True, password=server.password, settings=settings)
        directory.mkdir(mode=0o755)
        cluster = directory / "cluster"
        subprocess.run(
            [binary_dir() / "pg_basebackup", "-d", server.dsn(), "-D", cluster, "-X", "stream", "-c", "fast", "--no-sync"],
            check=True,
            capture_output=True,
        )
        (directory / "password").write_text(server.password)
        (cluster / "standby.signal").touch()
        if (user := process.unprivileged_user()) is not None:
            entry = pwd.getpwnam(user)
            for folder, _, files in os.walk(cluster):
                for name in [folder, *(os.path.join(folder, file) for file in files)]:
                    os.chown(name, entry.pw_uid, entry.pw_gid)

    def promote(self, **settings: str) -> EmbeddedPostgres:
        self.server._settings.update(settings)
        self.server.start()
        with self.server.connect() as db:
            assert db.execute("select pg_promote()").fetchone() == (True,)
        return self.server
