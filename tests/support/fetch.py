"""Fetches and unpacks what only tests start, so that no test waits for a download: ``python -m
tests.support.fetch``."""

from __future__ import annotations

from sluice.embedded import mariadb
from sluice.embedded.jar_sets import MARIADB
from sluice.embedded.jars import ensure_jars, runs_here
from tests.support import chromium, registry
from tests.support.jar_sets import DEBEZIUM


def main() -> None:
    ensure_jars("spark-s3")
    ensure_jars("spark-iceberg")
    ensure_jars(DEBEZIUM)
    registry.ensure_program()
    if runs_here(MARIADB):
        mariadb.ensure_program()
    chromium.ensure_chromium()


if __name__ == "__main__":
    main()
