"""``python -m benchmarks [NAME ...]``: runs the named benchmarks, or all, each in its own process."""

from __future__ import annotations

import subprocess
import sys

ALL = (
    "worker_start",
    "cluster_start",
    "cluster_scale",
    "idle_worker",
    "idle_connectors",
    "hung_connector",
    "metrics_scrape",
    "ui_overview",
    "executors",
    "file_source",
    "file_sink",
    "transform_chain",
    "transforms_alone",
    "functions_alone",
    "json_converter",
    "binlog_decode",
    "sqlite_writer",
    "postgres_snapshot",
    "postgres_stream",
    "postgres_commits",
    "postgres_rate",
    "postgres_exactly_once",
    "postgres_memory",
    "mariadb_snapshot",
    "mariadb_stream",
    "mariadb_commits",
    "mariadb_memory",
    "jdbc_source",
    "jdbc_sink",
    "lake_append",
    "lake_iceberg",
    "lake_upsert",
    "lake_freshness",
    "lake_load",
    "lake_backlog",
    "lake_tables",
    "lake_cluster",
    "lake_feed",
    "lake_nokafka",
    "spool_columns",
    "spark_start",
    "registry_converters",
    "verify",
)


def main() -> int:
    names = sys.argv[1:] or list(ALL)
    unknown = [name for name in names if name not in ALL]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(ALL)}", file=sys.stderr)
        return 2
    return max(subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=False).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
