"""The tables of a sink: finds, opens, reads, and maintains them."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from connect.errors import ConnectError
from connect.pending_work import PendingWork
from connect.record import TopicPartition
from connect.tracing import Attributes, current_trace, traced
from connectors.spark.config import SparkSinkConfig
from connectors.spark.config_keys import DELTA
from connectors.spark.delivery.table_queue import TableQueue
from connectors.spark.delivery.table_router import RouterKnowledge, TableRouter
from connectors.spark.delivery.timing import CommitTiming
from connectors.spark.plan.evolution import Columns
from connectors.spark.tables.application_ids import Identify
from connectors.spark.tables.open_table import Sessions, make_writer
from connectors.spark.tables.staging import Staging
from connectors.spark.tables.writer import TableWriter

log = logging.getLogger(__name__)

MAX_THREADS = min(32, max(4, 2 * (os.cpu_count() or 1)))
"""That read or commit tables at once."""
_INTERVAL_S = 5.0
_QUIET_S = 600.0
"""After which a table without own commits is visited again: others may write it, and its offsets must not expire."""
_NICENESS = 10


class MaintenanceThread:
    """Visits tables that have had commits since its last visit, and at times the others, one after the other, at low priority."""

    def __init__(
        self,
        name: str,
        writers: Callable[[], Sequence[TableWriter]],
        interval_s: float = _INTERVAL_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writers = writers
        self._interval_s = interval_s
        self._clock = clock
        self._visited: dict[str, tuple[int, float]] = {}
        """By table: the number of its commits, and the time."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stops after the current table. May be called twice, and before :meth:`start`."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        with contextlib.suppress(OSError, AttributeError):
            # On Linux, this is the priority of the thread.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)
        while not self._stop.wait(self._interval_s):
            self.visit_all()

    def visit_all(self) -> None:
        """Takes care of the tables that need it."""
        for writer in self._writers():
            if self._stop.is_set():
                return
            self._visit(writer)

    def _visit(self, writer: TableWriter) -> None:
        commits, started = writer.progress.commits, self._clock()
        visited = self._visited.get(writer.name)
        if visited is not None and visited[0] == commits and started - visited[1] < _QUIET_S:
            return
        try:
            writer.maintain(self._stop.is_set)
        except Exception as e:
            writer.progress.maintenance_failures += 1
            # The table works without it; commits report what is wrong with the table itself.
            log.warning("Maintenance of table %s failed and will be tried again: %s", writer.name, e)
            return
        self._visited[writer.name] = (commits, self._clock())
        writer.progress.maintenance_times.observe(self._clock() - started)


class SinkTables:
    """The tables by name, each with its queue; a table is added when it is asked for. Used on the sink's thread, except where a
    method says otherwise."""

    def __init__(
        self,
        config: SparkSinkConfig,
        owner: str,
        sessions: Sessions | None,
        identify: Identify,
        pending_work: PendingWork | None = None,
    ) -> None:
        """``owner`` names threads and temporary files. ``pending_work`` gets tables whose records wait."""
        self.partitions: set[TopicPartition] = set()
        """The partitions that the sink has."""
        self.router = TableRouter(config)
        self._config = config
        self._sessions = sessions
        self._identify = identify
        self._pending_work = pending_work
        self._trace = current_trace()
        self._queues: dict[str, TableQueue] = {}
        stages = config.table_format == DELTA
        self._staging = Staging(config.location, owner, config.spark.s3) if stages else None
        self._maintenance = MaintenanceThread(f"maintenance-{owner}", self._open_writers)
        if self._staging is not None:
            self._staging.clear()
        self._maintenance.start()

    # -- finding them

    def of_topic(self, topic: str) -> frozenset[str]:
        """Returns the names of a topic's tables, as far as known. Callable from any thread."""
        return self.router.tables_of(topic)

    def is_only_table(self, name: str, topic: str) -> bool:
        """Whether all records of a topic are of this table, as far as known. Callable from any thread."""
        return name in self.router.tables_of(topic) and len(self.router.current_tables_of(topic)) == 1

    def columns_of_topic(self, topic: str) -> tuple[str, Columns] | None:
        """Returns a topic's only table, and its columns; None if it has several, or none yet."""
        tables = self.router.current_tables_of(topic)
        name = next(iter(tables)) if len(tables) == 1 else None
        columns = None if name is None else self.queue(name).known_columns(self.partitions)
        return (name, columns) if name is not None and columns else None

    def have_columns(self, topic: str) -> bool:
        """Whether the topic's tables are known and exist."""
        names = self.of_topic(topic)
        return bool(names) and all(self.queue(name).known_columns(self.partitions) is not None for name in names)

    def keep_own(self, names: Collection[str]) -> None:
        """Reads tables of this connector, and remembers the topics of which they have records. Blocks."""
        for name, ends in self.load(dict.fromkeys(names, ())).items():
            topics = {tp.topic for tp in ends}
            for topic in topics:
                self.router.add_tables(topic, [name])
            if not topics:
                del self._queues[name]

    def knowledge(self) -> RouterKnowledge:
        """Returns which tables topics have, for another process. Callable from any thread."""
        return self.router.knowledge()

    def learn(self, knowledge: RouterKnowledge) -> None:
        """Adds what another process has found out."""
        self.router.learn(knowledge)

    def count_unrouted(self, ignored_tombstones: int, unrouted: int) -> None:
        """Counts records of another process."""
        self.router.ignored_tombstones += ignored_tombstones
        self.router.unrouted += unrouted

    # -- opening and reading them

    def queue(self, name: str) -> TableQueue:
        """Returns the queue of a table, which is added if it is new."""
        if name not in self._queues:
            self._queues[name] = TableQueue(name, self._timing(name), self._open, self._trace, self._pending_work)
        return self._queues[name]

    def names(self) -> list[str]:
        """Callable from any thread."""
        return list(self._queues)

    def queues(self) -> list[TableQueue]:
        """Returns those of all tables. Callable from any thread."""
        return list(self._queues.values())

    def wait_s(self, topic: str) -> float:
        """Returns how long a record of a topic waits for a commit."""
        timings = [self.queue(name).timing for name in self.of_topic(topic)] or [self._timing("")]
        return min(timing.wait_s for timing in timings)

    def _timing(self, table: str) -> CommitTiming:
        config = self._config
        interval_s = None if config.commit_interval_ms is None else config.commit_interval_ms / 1000
        return CommitTiming(interval_s, config.table_freshness_ms.get(table, config.freshness_ms) / 1000)

    def _open(self, name: str) -> TableWriter:
        return make_writer(self._config, name, self._sessions, self._staging, self._identify)

    def _open_writers(self) -> list[TableWriter]:
        return [queue.writer for queue in self.queues() if queue.writer is not None]

    def load(self, partitions: Mapping[str, Collection[TopicPartition]]) -> dict[str, Mapping[TopicPartition, int]]:
        """Reads tables in parallel; returns, by table, the end offsets of these partitions. None may be running. Blocks."""
        if not partitions:
            return {}
        queues = [self.queue(name) for name in partitions]
        with ThreadPoolExecutor(min(len(queues), MAX_THREADS), "load-table") as pool:
            states = pool.map(lambda queue: queue.load(partitions[queue.name]), queues)
            return {queue.name: state.ends for queue, state in zip(queues, states, strict=True)}

    # -- for drivers that commit by themselves, on any thread, while none of their tables is running

    def writer(self, name: str) -> TableWriter:
        """Returns the table's writer."""
        return self._queues[name].open_writer()

    @contextlib.contextmanager
    def commit(self, name: str, attributes: Attributes) -> Iterator[TableWriter]:
        """Yields the table's writer, for a commit with these attributes of its span."""
        with traced(self._trace, "table commit", {"sluice.table": name, **attributes}, is_root=True):
            writer = self.writer(name)
            yield writer
        self._queues[name].update_columns(writer)

    def close(self) -> None:
        """Ends the maintenance, and removes temporary files. May be called more than once."""
        self._maintenance.close()
        if self._staging is not None:
            try:
                self._staging.clear()
            except ConnectError as e:
                log.warning("%s. The next start clears it", e.message)
