"""300,000 updates streamed by a distributed worker without and with exactly-once delivery; the second line has its cost in
percent of the rate. Both run three times, in turns; the lines have the fastest run."""

from __future__ import annotations

import json

from benchmarks.change_stream import PLAIN_JSON, ChangeStream, is_streaming
from benchmarks.cluster import BenchCluster, ClusterWorker
from benchmarks.environment import BenchmarkEnvironment, customers_table, database, environment, source_config
from benchmarks.measure import Figures, report
from sluice.embedded.postgres import EmbeddedPostgres

ROWS, UPDATES, RUNS = 300_000, 300_000, 3


def _update_all(server: EmbeddedPostgres) -> int:
    with server.connect() as connection:
        connection.execute("UPDATE customers SET score = score + 1 WHERE id <= %s", (UPDATES,))
    return UPDATES


def _stream(here: BenchmarkEnvironment, server: EmbeddedPostgres, name: str, **settings: str) -> Figures:
    topic = here.create_topic(f"{name}.public.customers")
    cluster = BenchCluster(here, {**PLAIN_JSON, **settings})
    source = source_config(server, name, **{"snapshot.mode": "no_data", "slot.drop.on.stop": "true"})
    with cluster.workers(1) as (worker,):
        worker.change("PUT", f"/connectors/{name}/config", source)
        worker.process.wait_until(lambda: is_streaming(_progress(worker, name)), 60)
        figures = ChangeStream(here, worker.process).measure(lambda: _update_all(server), 180, [topic], is_one_transaction=True)
        worker.change("DELETE", f"/connectors/{name}")
    return figures


def _progress(worker: ClusterWorker, name: str) -> object:
    status, body = worker.ask("GET", f"/sluice/connectors/{name}/progress")
    return json.loads(body) if status == 200 else None


def main() -> None:
    with environment() as here, database(here.home) as server:
        customers_table(server, ROWS)
        without: list[Figures] = []
        exactly_once: list[Figures] = []
        for i in range(RUNS):
            without.append(_stream(here, server, f"plain{i}"))
            exactly_once.append(_stream(here, server, f"once{i}", **{"exactly.once.source.support": "enabled"}))
        plain, once = (min(found, key=lambda figures: figures.wall_s) for found in (without, exactly_once))
        report("postgres_exactly_once_without", plain, None)
        cost = round(100 * (1 - plain.wall_s / once.wall_s), 1)
        report("postgres_exactly_once", once, None, cost_percent=cost, cpu_times=round(once.cpu_s / plain.cpu_s, 2))


if __name__ == "__main__":
    main()
