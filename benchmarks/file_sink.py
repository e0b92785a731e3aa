"""Topic -> file: 1,000,000 records of 99 bytes with StringConverter, beside a plain client that writes the same file."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import Consumer

from benchmarks.environment import STRING, BenchmarkEnvironment, environment, produce_lines, write_lines
from benchmarks.measure import Measured, measure_here, report

RECORDS = 1_000_000


def _baseline(scene_: BenchmarkEnvironment, topic: str, out: Path) -> None:
    consumer = Consumer(
        {
            "bootstrap.servers": scene_.broker.bootstrap,
            "group.id": "limit",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "queued.min.messages": 1_000_000,
            "fetch.queue.backoff.ms": 5,
        }
    )
    consumer.subscribe([topic])
    seen = 0
    with out.open("wb") as file:
        while seen < RECORDS:
            messages = consumer.consume(10_000, 1.0)
            file.writelines(m.value() + b"\n" for m in messages)
            seen += len(messages)
    consumer.commit(asynchronous=False)
    consumer.close()


def main() -> None:
    with environment() as here:
        lines = write_lines(here.home / "lines.txt", RECORDS)
        topic = here.create_topic("lines")
        produce_lines(here.producer(), topic, lines)
        limit = measure_here(RECORDS, lambda: _baseline(here, topic, here.home / "limit.txt"))
        out, size = here.home / "out.txt", lines.stat().st_size
        connector = {
            "name": "file-sink",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
            "tasks.max": "1",
            "file": str(out),
            "topics": topic,
        }
        command, _ = here.worker_command({"key.converter": STRING, "value.converter": STRING}, [connector])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: out.exists() and out.stat().st_size > 0, 60)
            worker.mark_first()
            worker.wait_until(lambda: out.stat().st_size >= size, 120)
            ours = worker.figures(RECORDS)
        if out.read_bytes() != lines.read_bytes():
            raise RuntimeError("the file that came out is not the file that went in")
        report("file_sink", ours, limit)


if __name__ == "__main__":
    main()
