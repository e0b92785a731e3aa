"""The command ``sluice``. Commands are listed here and imported when called, so that ``--help`` stays fast."""

from __future__ import annotations

import os
import sys

from sluice.cli.app import VARIABLE, Command, build, complete
from sluice.cli.errors import run

# The target of each command, and its line in ``sluice --help`` (shown without importing it).
COMMANDS: dict[str, Command] = {
    "demo": Command(
        "sluice.cli.demo:demo", "Replicate a PostgreSQL shop into Spark tables on embedded services, and verify the result."
    ),
    "up": Command("sluice.cli.demo:up", "Start the embedded broker, database, and worker, and print their addresses."),
    "down": Command("sluice.cli.demo:down", "Stop the services that 'up' started."),
    "broker": Command("sluice.cli.broker:broker", "Start, stop, and inspect the embedded Apache Kafka broker."),
    "lint": Command("sluice.cli.lint:lint", "Check worker and connector files offline; print findings with file and line."),
    "preview": Command(
        "sluice.cli.preview:preview", "Run records through a connector's transformations and converters, offline."
    ),
    "test": Command("sluice.cli.test:test", "Run the config tests next to connector files, offline."),
    "plan": Command("sluice.cli.apply:plan", "Show what apply would change in a cluster."),
    "apply": Command("sluice.cli.apply:apply", "Create and update the connectors of files in a cluster."),
    "get": Command("sluice.cli.connectors:get", "List connectors with their states, failures first."),
    "describe": Command("sluice.cli.connectors:describe", "Show state, errors, configuration, and offsets of connectors."),
    "diagnose": Command("sluice.cli.diagnose:diagnose", "Say what is wrong with connectors, why, and which command fixes it."),
    "top": Command("sluice.cli.top:top", "Show what connectors are doing, live: states, records per second, lag."),
    "ui": Command("sluice.cli.ui:ui", "Serve the web page for a cluster, also of Apache Kafka Connect."),
    "verify": Command(
        "sluice.cli.verify:verify", "Prove that the tables of a sink equal the source's database; mend differences."
    ),
    "pause": Command("sluice.cli.connectors:pause", "Pause connectors."),
    "resume": Command("sluice.cli.connectors:resume", "Resume connectors that are paused or stopped."),
    "stop": Command("sluice.cli.connectors:stop", "Stop connectors, so that their offsets can be changed."),
    "restart": Command("sluice.cli.connectors:restart", "Restart connectors with their tasks, or only what has failed."),
    "delete": Command("sluice.cli.connectors:delete", "Delete connectors."),
    "offsets": Command("sluice.cli.offsets:offsets", "Show and change the offsets of connectors; undo changes."),
    "history": Command("sluice.cli.worker_admin:history", "List the configurations that a connector had."),
    "rollback": Command("sluice.cli.worker_admin:rollback", "Restore an earlier configuration of a connector."),
    "plugins": Command("sluice.cli.worker_admin:plugins", "List the connectors that a worker can run."),
    "loggers": Command("sluice.cli.worker_admin:loggers", "Show and set the levels of a worker's loggers."),
    "logs": Command("sluice.cli.logs:logs", "Show the log lines of a connector, from all workers."),
    "dlq": Command("sluice.cli.dlq:dlq", "Show dead letters, group them by cause, and replay them."),
    "context": Command("sluice.cli.worker:context", "Name clusters, and choose the current one."),
    "auth": Command("sluice.cli.auth:auth", "Create users and tokens for workers, and show who you are at one."),
    "topic": Command("sluice.cli.topic:topic", "List, create, alter, delete, read, and write topics."),
    "group": Command("sluice.cli.group:group", "List and describe consumer groups; reset their offsets."),
    "mcp": Command("sluice.cli.mcp:mcp", "Serve an assistant: connectors, diagnosis, checks, and docs as MCP tools."),
    "doctor": Command("sluice.cli.doctor:doctor", "Check installation, or the connections of connector files; suggest fixes."),
    "tables": Command("sluice.cli.external_systems:tables", "List the tables that a connector's file can name."),
    "docs": Command("sluice.cli.docs:docs", "Show the keys of a connector, a converter, or the worker."),
    "completion": Command("sluice.cli.completion:completion", "Print the script that completes commands and names in a shell."),
    "setup": Command("sluice.cli.setup:setup", "Fetch and prepare the embedded services."),
}


def main() -> None:
    """Entry point of the console script. Exit codes: 0 success, 1 failure, 2 bad usage or config, 3 unreachable."""
    command = build(COMMANDS)
    sys.exit(complete(command) if VARIABLE in os.environ else run(command))
