"""``python -m connectors.sqlite FILE``: removes what a connector that no longer exists has created in a database file."""

from __future__ import annotations

import argparse
import contextlib
import logging
import re
import sys
from collections.abc import Sequence

from connect.errors import ConnectError
from connect.main_process import exit_with
from connectors.sqlite.connection import SqliteConnection
from connectors.sqlite.triggers.ddl import CaptureNames
from connectors.sqlite.triggers.installation import drop_objects

log = logging.getLogger(__name__)

EXIT_FAILED, EXIT_USAGE = 1, 2
_BUSY_TIMEOUT_S = 10.0


def main(arguments: Sequence[str]) -> int:
    """Drops triggers and tables. Returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m connectors.sqlite", description="Drop the triggers and tables of a SQLite source that no longer exists."
    )
    parser.add_argument("file", metavar="FILE", help="the database file")
    parser.add_argument("--capture-name", default="", help="the connector's capture.name; by default none")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as e:  # argparse has printed help or the problem
        return int(e.code or 0)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    if re.fullmatch("[a-z0-9]*", given.capture_name) is None:
        log.error("--capture-name %s has other characters than lowercase letters and digits", given.capture_name)
        return EXIT_USAGE
    names = CaptureNames.of(given.capture_name)
    try:
        with (
            contextlib.closing(SqliteConnection(given.file, _BUSY_TIMEOUT_S)) as connection,
            connection.writing("drop triggers"),
        ):
            dropped = drop_objects(connection, names)
    except ConnectError as e:
        log.error("%s", e.message)
        return EXIT_FAILED
    log.info("dropped %d triggers and tables of the connector with %s in %s", dropped, names.changes, given.file)
    return 0


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]), EXIT_FAILED)
