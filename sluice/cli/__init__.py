"""The command ``sluice``. Commands are listed here and imported when they are called, so that ``--help`` stays fast."""

from __future__ import annotations

import sys

from sluice.cli.app import Command, build
from sluice.cli.errors import run

# One line per command: where it lives, and its line in ``sluice --help`` (shown without importing it).
COMMANDS: dict[str, Command] = {
    "demo": Command("sluice.cli.demo:demo", "Copy a PostgreSQL shop into Spark tables on embedded parts, and prove it equal."),
    "up": Command("sluice.cli.demo:up", "Start the embedded broker, database and worker, and print their addresses."),
    "down": Command("sluice.cli.demo:down", "Stop what 'up' started."),
    "broker": Command("sluice.cli.broker:broker", "Start, stop and look at the embedded Apache Kafka."),
    "lint": Command("sluice.cli.lint:lint", "Check worker and connector files, offline: every finding with file and line."),
    "preview": Command("sluice.cli.preview:preview", "Show what a connector's file makes of records, offline."),
    "test": Command("sluice.cli.test:test", "Run the tests that lie beside connector files, offline."),
    "topic": Command("sluice.cli.topic:topic", "List, create, alter, delete, read and write topics."),
    "group": Command("sluice.cli.group:group", "Look at consumer groups and reset their offsets."),
    "doctor": Command("sluice.cli.doctor:doctor", "Check what is installed and reachable, and how to fix what is not."),
    "docs": Command("sluice.cli.docs:docs", "Show the keys of a connector, a converter or the worker."),
    "setup": Command("sluice.cli.setup:setup", "Fetch and prepare everything the embedded parts need."),
}


def main() -> None:
    """Entry point of the console script. Ends the process with 0 ok, 1 failed, 2 bad usage or config, 3 cannot reach."""
    sys.exit(run(build(COMMANDS)))
