"""``python -m connectors.spark.datasource``: a source connector fills tables without Kafka and without a worker.

It starts Spark as the Spark sink does, and runs one query (:class:`connectors.spark.datasource.SpoolTables`) until it is asked to
stop (SIGTERM, SIGINT) or the query fails (exit code 1).
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from connect.config.properties import read_properties
from connect.errors import ConfigError, ConnectError
from connect.main_process import StopSignals, exit_with
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.datasource import SpoolTables, register

log = logging.getLogger(__name__)

EXIT_FAILED, EXIT_CONFIG = 1, 2
_TICK_S = 0.2


def main(arguments: Sequence[str]) -> int:
    """Runs the query. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m connectors.spark.datasource", description="Fill tables without Kafka.")
    parser.add_argument("source", metavar="SOURCE", help="file with the options of the stream: connector and spool.location")
    parser.add_argument("sinks", metavar="SINK", nargs="+", help="files with the configurations of Spark sinks")
    parser.add_argument("--checkpoint", required=True, help="directory of the query's checkpoint")
    parser.add_argument("--progress", type=Path, help="file that has the progress as JSON")
    try:
        given = parser.parse_args(arguments)
    except SystemExit as e:  # argparse has printed help or the problem
        return int(e.code or 0)
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")
    stop = StopSignals()
    try:
        source = dict(read_properties(given.source))
        _run(source, [dict(read_properties(one)) for one in given.sinks], given.checkpoint, given.progress, stop)
    except ConfigError as e:
        log.error("%s", e.message)
        return EXIT_CONFIG
    except ConnectError as e:
        log.error("The query failed: %s", e.message)
        return EXIT_FAILED
    finally:
        session.stop()
    return 0


def _run(
    source: dict[str, str], sinks: Sequence[dict[str, str]], checkpoint: str, progress: Path | None, stop: StopSignals
) -> None:
    """Runs the query until it is asked to stop. Raises ConnectError."""
    lease = session.lease(parse_config({"topics.regex": ".*", **sinks[0]}).spark)
    try:
        spark = lease.session()
        register(spark)
        with SpoolTables(spark, source, *sinks) as tables:
            batches = tables.stream().writeStream.foreachBatch(tables.write)
            query = batches.option("checkpointLocation", checkpoint).start()
            log.info("The query %s runs", query.id)
            try:
                while query.isActive and not stop.wait(_TICK_S):
                    if progress is not None:
                        _write_progress(progress, tables)
                failure = query.exception()
                if failure is not None:
                    raise ConnectError(str(failure))
            finally:
                log.info("Stopping the query")
                query.stop()
                log.info("The query has stopped")
    finally:
        lease.release()


def _write_progress(path: Path, tables: SpoolTables) -> None:
    """Replaces the file, so that a reader sees all of it."""
    draft = path.with_name(f"{path.name}.tmp")
    draft.write_text(json.dumps(tables.progress()), encoding="utf-8")
    draft.replace(path)


if __name__ == "__main__":
    exit_with(lambda: main(sys.argv[1:]), EXIT_FAILED)
