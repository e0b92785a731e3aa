"""Random histories of tables that several tasks and other Sparks write, against a model: nothing is lost, doubled, or changed.

Each history runs twice, once with files that the worker writes and once with Spark's MERGE and DataFrames. Spark and a second
engine read the tables.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from connect import crash_points
from connect.record import TopicPartition
from connectors.spark import session
from connectors.spark.config import parse_config
from connectors.spark.tables import file_table, open_table
from connectors.spark.tables.files import compaction
from tests.integration.spark.crashes import Crash
from tests.integration.spark.histories import PARTITIONS, Event, History, Model, Step, make_history, sorted_rows
from tests.integration.spark.table_access import CATALOG, DeltaAccess, IcebergAccess, TableAccess, catalog_props
from tests.support import randomness

# PySpark's collect() leaves the socket it read from to Python's reference counting.
pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

HISTORIES = randomness.size("SLUICE_HISTORIES", 1)
"""Number of random histories."""
STEPS = randomness.size("SLUICE_STEPS", 5)
KINDS = [("upsert", "hard"), ("upsert", "soft"), ("append", "hard"), ("upsert", "ignore")]
"""By number of the history, in turn: write mode and delete mode."""


class World:
    """Two tasks and another Spark on one table, with a model of it."""

    def __init__(
        self,
        history: History,
        model: Model,
        props: dict[str, str],
        access: TableAccess,
        topic: Any,
        new_run: Callable[..., Any],
        *,
        raw: bool,
    ) -> None:
        self.model = model
        self._history = history
        self._props = props
        self._topic = topic
        self._new_run = new_run
        self._raw = raw
        self._group: dict[TopicPartition, int] = {}
        self._assigned = {0: {0, 1}, 1: {2}}
        self._runs: dict[int, Any] = {}
        self._waiting: dict[int, list[tuple[int, int, Event]]] = {0: [], 1: []}
        """By task: the records that it holds."""
        self._lease = session.lease(parse_config(props).spark)
        self._spark = self._lease.session()
        self._spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        self._access = access

    def run(self) -> None:
        for step in self._history.steps:
            self._act(step)
        # Whoever has not crashed in the end delivers the rest.
        for task in (0, 1):
            for partition in self._assigned[task]:
                self._deliver(task, partition, len(self._history.logs[partition]))
            self._commit(Step("commit", task))
        assert self.model.ends == {p: len(log) for p, log in enumerate(self._history.logs)}
        self.check()
        for task in (0, 1):
            self._task(task).close()
        self._lease.release()

    def check(self) -> None:
        """Compares the table with the model, by two engines."""
        expected = self.model.table()
        assert sorted_rows(self._access.by_spark(self._spark).to_pylist()) == expected
        assert sorted_rows(self._access.by_second_engine().to_pylist()) == expected

    def schema(self) -> dict[str, pa.DataType]:
        schema = self._access.by_second_engine().schema
        return dict(zip(schema.names, schema.types, strict=True))

    # -- steps

    def _act(self, step: Step) -> None:
        if step.action == "deliver":
            mine = sorted(self._assigned[step.task])
            if mine:
                self._deliver(step.task, mine[step.partition % len(mine)], step.count)
        elif step.action == "redeliver":
            self._redeliver(step)
        elif step.action == "rebalance":
            self._rebalance({p for p in range(PARTITIONS) if step.count >> p & 1})
        elif step.action == "commit":
            self._commit(step)
        elif step.action == "maintain":
            self._maintain(step)
        elif self._access.path.is_dir():
            statement = self.model.change_by_others(step.action, step.count)
            if statement is not None:
                self._access.change(self._spark, statement)

    def _task(self, task: int) -> Any:
        """A task that runs; starts it if it has crashed."""
        if task not in self._runs:
            props = {**self._props, "spark.sink.task": str(task)}
            mine = self._assigned[task]
            run = self._new_run(props, [self._topic], raw=self._raw, group=self._group, partitions=mine)
            self._runs[task] = run
            for tp, position in run.position.items():
                # Promise 6: the table says where to continue.
                assert position == self.model.ends.get(tp.partition, 0)
        return self._runs[task]

    def _deliver(self, task: int, partition: int, count: int) -> None:
        run = self._task(task)
        tp = TopicPartition(self._topic.name, partition)
        first = run.position[tp]
        end = min(first + count, len(self._history.logs[partition]))
        run.deliver_partition(self._topic, partition, end, batch=7)
        self._waiting[task] += [(partition, o, self._history.logs[partition][o]) for o in range(first, end)]

    def _redeliver(self, step: Step) -> None:
        """The consumer goes back without the table's consent."""
        if self._waiting[step.task] or step.partition not in self._assigned[step.task]:
            return
        run = self._task(step.task)
        tp = TopicPartition(self._topic.name, step.partition)
        run.task.sink._offsets.forget([tp])
        run.position[tp] = max(0, run.position[tp] - step.count)
        self._deliver(step.task, step.partition, step.count + 3)

    def _rebalance(self, first: set[int]) -> None:
        for task in (0, 1):
            self._commit(Step("commit", task))
            self._task(task).close()
            del self._runs[task]
        self._assigned = {0: first, 1: set(range(PARTITIONS)) - first}

    def _commit(self, step: Step) -> None:
        run, waiting = self._task(step.task), self._waiting[step.task]
        left = [step] if step.point else []

        def reach(point: str) -> None:
            if left and left[0].point == point:
                now = left.pop()
                if point == "spark.committed":
                    self._committed(step.task)
                if now.middle is not None:
                    self._act(now.middle)
                if now.crashes:
                    raise Crash

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(crash_points, "point", reach)
            try:
                run.commit()
            except Crash:
                run.task.close()
                del self._runs[step.task]
                waiting.clear()
                return
        self._committed(step.task)

    def _committed(self, task: int) -> None:
        self.model.apply(self._waiting[task])
        self._waiting[task].clear()

    def _maintain(self, step: Step) -> None:
        """Compacts the task's table; the step in the middle happens while the new file is written."""
        table = self._task(step.task).task.sink.tables.queue(self._topic.name)
        merge_files = compaction.merge_files
        left = [] if step.middle is None else [step.middle]

        def merge(*args: Any) -> Any:
            merged = merge_files(*args)
            if left:
                self._act(left.pop())
            return merged

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(file_table, "merge_files", merge)
            if table.writer is not None:
                table.writer.maintain(lambda: False)
        for step in left:  # there was nothing to merge
            self._act(step)


@pytest.mark.usefixtures("no_maintenance_thread")
@pytest.mark.parametrize("number", range(HISTORIES))
def test_random_history_gives_the_rows_of_the_model_with_files_and_with_merge(
    props: Any, run: Any, topic: Any, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    mode, delete_mode = KINDS[number % len(KINDS)]
    history = make_history(number, steps=STEPS, events=8 * STEPS)
    t = topic("t", schemas=True)
    for partition, log in enumerate(history.logs):
        t.logs[partition] = [(event.key(), event.value()) for event in log]
    columns = "__op,__partition,__offset" if mode == "append" else "none"
    results = []
    for files in (True, False):
        raw = files == (number // len(KINDS) % 2 == 0)
        monkeypatch.setattr(open_table, "reaches_jvm", lambda spark, files=files: files)
        settings = {
            **props,
            "table.location": f"{props['table.location']}/{files}",
            "write.mode": mode,
            "delete.mode": delete_mode,
            "metadata.columns": columns,
            "compaction.min.files": "2",
        }
        world = World(
            history, Model(mode, delete_mode), settings, DeltaAccess(Path(settings["table.location"]) / "t"), t, run, raw=raw
        )
        world.run()
        results.append((world.model.table(), world.schema()))
    assert results[0] == results[1]


@pytest.mark.usefixtures("no_maintenance_thread")
@pytest.mark.parametrize("format_version", ["3", "2"])
@pytest.mark.parametrize("number", range(HISTORIES))
def test_random_history_gives_the_rows_of_the_model_in_iceberg(
    props: Any, run: Any, topic: Any, number: int, format_version: str
) -> None:
    mode, delete_mode = KINDS[number % len(KINDS)]
    history = make_history(number, steps=STEPS, events=8 * STEPS)
    t = topic("t", schemas=True)
    for partition, log in enumerate(history.logs):
        t.logs[partition] = [(event.key(), event.value()) for event in log]
    warehouse = Path(props.pop("table.location"))
    settings = {
        **props,
        **{f"spark.conf.{key}": value for key, value in catalog_props(warehouse).items()},
        "table.format": "iceberg",
        "table.catalog": CATALOG,
        "table.properties.format-version": format_version,
        "write.mode": mode,
        "delete.mode": delete_mode,
        "metadata.columns": "__op,__partition,__offset" if mode == "append" else "none",
        "compaction.min.files": "2",
    }
    model = Model(mode, delete_mode)
    World(history, model, settings, IcebergAccess(warehouse / "t"), t, run, raw=number // len(KINDS) % 2 == 0).run()
