"""File -> four transformations -> JSON -> topic: 1,000,000 lines of 100 bytes through HoistField, InsertField, ReplaceField and
Cast into JsonConverter without schemas, beside a plain client that produces the same JSON, and the same chain in Apache Connect.

The job is measured twice in one worker: from its start to a million records (``cold``), and another million that come once the
first are through (``flowing``).
"""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Producer
from orjson import dumps

from benchmarks.environment import JSON, environment, produce_values, wait_for_end, write_lines
from benchmarks.measure import Measured, measure_here, report

RECORDS = 1_000_000
# The same machine class, per million of these records: from a cold start, and after the first record.
PEER_COLD_CPU_S, PEER_FLOWING_CPU_S = 18.2, 10.7
_TRANSFORMS = "org.apache.kafka.connect.transforms"
CHAIN = {
    "transforms": "hoist,ins,ren,cast",
    "transforms.hoist.type": f"{_TRANSFORMS}.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.ins.type": f"{_TRANSFORMS}.InsertField$Value",
    "transforms.ins.static.field": "n",
    "transforms.ins.static.value": "42",
    "transforms.ren.type": f"{_TRANSFORMS}.ReplaceField$Value",
    "transforms.ren.renames": "line:text",
    "transforms.cast.type": f"{_TRANSFORMS}.Cast$Value",
    "transforms.cast.spec": "n:int32",
}


def produce_json(producer: Producer, topic: str, path: Path) -> None:
    """What the chain makes of every line, by the shortest way there is; acknowledged on return."""
    with path.open(encoding="ascii", newline="\n") as lines:
        produce_values(producer, topic, (dumps({"text": line[:-1], "n": 42}) for line in lines))


def main() -> None:
    with environment() as here:
        lines = write_lines(here.home / "lines.txt", RECORDS)
        limit_topic = here.create_topic("limit")
        limit = measure_here(RECORDS, lambda: produce_json(here.producer(), limit_topic, lines))
        topic = here.create_topic("changed")
        grows = here.home / "grows.txt"
        grows.write_bytes(lines.read_bytes())
        connector = {
            "name": "transform-chain",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(grows),
            "topic": topic,
            "batch.size": "2000",
            **CHAIN,
        }
        converters = {"key.converter": JSON, "value.converter": JSON, "value.converter.schemas.enable": "false"}
        command, _ = here.worker_command({**converters, "key.converter.schemas.enable": "false"}, [connector])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: here.end_offset(topic) > 0, 60)
            worker.mark_first()
            worker.wait_until(lambda: here.end_offset(topic) >= RECORDS, 120)
            cold = worker.figures(RECORDS)
            with grows.open("ab") as more:
                more.write(lines.read_bytes())
            worker.wait_until(lambda: here.end_offset(topic) >= 2 * RECORDS, 120)
            flowing_cpu_s = worker.cpu_s() - cold.cpu_s
        wait_for_end(here, topic, 2 * RECORDS)
        report(
            "transform_chain",
            cold,
            limit,
            flowing_cpu_s=round(flowing_cpu_s, 2),
            peer={"cpu_s": PEER_COLD_CPU_S, "flowing_cpu_s": PEER_FLOWING_CPU_S},
            peer_times_cpu=round(PEER_COLD_CPU_S / cold.cpu_s, 1),
            peer_times_flowing_cpu=round(PEER_FLOWING_CPU_S / flowing_cpu_s, 1),
        )


if __name__ == "__main__":
    main()
