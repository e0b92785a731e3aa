"""File -> topic: 1,000,000 lines of 100 bytes with StringConverter, beside a plain client that produces the same lines."""

from __future__ import annotations

from benchmarks.environment import STRING, environment, produce_lines, wait_for_end, write_lines
from benchmarks.measure import Measured, measure_here, report

RECORDS = 1_000_000


def main() -> None:
    with environment() as here:
        lines = write_lines(here.home / "lines.txt", RECORDS)
        limit_topic = here.create_topic("limit")
        limit = measure_here(RECORDS, lambda: produce_lines(here.producer(), limit_topic, lines))
        topic = here.create_topic("lines")
        connector = {
            "name": "file-source",
            "connector.class": "org.apache.kafka.connect.file.FileStreamSourceConnector",
            "tasks.max": "1",
            "file": str(lines),
            "topic": topic,
        }
        command, _ = here.worker_command({"key.converter": STRING, "value.converter": STRING}, [connector])
        with Measured(command, here.home / "log") as worker:
            worker.wait_until(lambda: here.end_offset(topic) > 0, 60)
            worker.mark_first()
            worker.wait_until(lambda: here.end_offset(topic) >= RECORDS, 120)
            ours = worker.figures(RECORDS)
        wait_for_end(here, topic, RECORDS)
        report("file_source", ours, limit)


if __name__ == "__main__":
    main()
