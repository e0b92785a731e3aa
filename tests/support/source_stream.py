"""A source of the numbered tables on one worker, and what its topics must contain whenever the worker or the server dies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from connect.errors import ConnectError
from sluice.embedded.broker import EmbeddedBroker
from tests.support.numbered_changes import CommittedChanges, NumberedTables, assert_versions_in_order
from tests.support.postgres_options import dotted
from tests.support.replayed_topics import ReplayedTopics
from tests.support.standalone_worker import SOURCE_ONLY, create_worker, write_connector
from tests.support.waiting import WAIT_S

SOURCE = "chaos-source"


class SourceStream:
    """The worker, the changes that are committed meanwhile, and the topics. A worker that a test kills starts again."""

    def __init__(
        self,
        home: Path,
        broker: EmbeddedBroker,
        tables: NumberedTables,
        source: Mapping[str, str],
        *,
        sinks: Mapping[str, Mapping[str, str]] | None = None,
        properties: Mapping[str, str] = SOURCE_ONLY,
    ) -> None:
        """``source`` and ``sinks``: configs of connectors; ``properties``: of the worker."""
        self.prefix = source["topic.prefix"]
        self.tables = tables
        self.changes = CommittedChanges(tables)
        self.worker = create_worker(home, broker, {SOURCE: source, **(sinks or {})}, properties)
        self._source = source
        names = (name.rpartition(".") for name in source["table.include.list"].split(","))
        topics = {table: f"{self.prefix}.{schema}.{table}" for schema, _, table in names}
        self._topics = ReplayedTopics(broker.bootstrap, topics, {"counters": ("id",)})

    @contextmanager
    def running(self) -> Iterator[None]:
        """Commits changes, and ends everything at the end. The worker does not start yet."""
        self.changes.start()
        try:
            yield
        finally:
            self.close()
            self.changes.stop()

    def close(self) -> None:
        self.worker.end()
        self._topics.close()

    def configure(self, **options: str) -> None:
        """Changes keys of the source for the next start."""
        write_connector(self.worker.home, SOURCE, {**self._source, **dotted(options)})

    # --- what the topics have

    def values(self, table: str) -> list[Any]:
        """All values of a table's topic."""
        return self._topics.values(table)

    def numbers(self) -> list[int]:
        """The numbers of all events in the topic."""
        return [value["after"]["n"] for value in self.values("events") if value is not None and value["after"] is not None]

    def differences(self) -> tuple[list[Any], list[Any]]:
        """Counters of the table alone, and of the topic alone; at most some of them."""
        with closing(self.tables.connect()) as connection, connection.cursor() as cursor:

            def query(sql: str) -> Any:
                cursor.execute(sql)
                return cursor

            found = self._topics.replay().differences(query, ["counters"], "id, n, note")
        table, topic = found.get("counters", ([], []))
        return table, topic

    # --- waiting

    def wait_for(self, claim: Callable[[], bool], what: str, timeout_s: float = WAIT_S) -> None:
        """Waits while the worker runs. A failure shows its log, and how far topic and table are."""
        try:
            self.worker.wait_for(claim, timeout_s, what)
        except AssertionError as e:
            e.add_note(f"The topic has {max(self.numbers(), default=0)}, the table {max(self.tables.numbers(), default=0)}.")
            e.add_note(f"Counters differ: {self.differences()}. Sessions: {self.tables.query(self.tables.dialect.sessions)}")
            raise

    def wait_for_events(self, count: int) -> None:
        """Waits for more events than there are."""
        before = len(set(self.numbers()))
        self.wait_for(lambda: len(set(self.numbers())) >= before + count, f"{count} events")

    def wait_for_snapshot(self) -> None:
        """Waits until the worker reads a table for its snapshot."""
        self.wait_for(lambda: "snapshot: reading" in self.worker.log_tail(100_000), "the snapshot")

    def wait_for_failure(self, message: str) -> None:
        """Waits until the task fails with this message."""

        def failed() -> bool:
            try:
                (task,) = self.worker.client.status(SOURCE)["tasks"] or [{"state": ""}]
            except ConnectError:
                return False  # it is starting
            assert task["state"] != "FAILED" or message in task["trace"], task["trace"]
            return bool(task["state"] == "FAILED")

        self.wait_for(failed, f"a failure: {message}")

    def wait_for_everything(self) -> list[int]:
        """Waits until the topics replay to the tables, while nothing is committed; returns all events."""
        events = self.tables.numbers()
        self.wait_for(lambda: events[-1] in self.numbers() and not any(self.differences()), "everything")
        return events

    # --- promises

    def assert_nothing_is_lost(self) -> None:
        """Waits until everything has arrived, then replays the topics."""
        self.changes.stop()
        events = self.wait_for_everything()
        assert sorted(set(self.numbers())) == events, "the topic lacks an event"
        # Rows of a snapshot that was begun again come after changes that were streamed before it; changes keep their own order.
        streamed = [value["after"]["n"] for value in self.values("events") if value is not None and value["op"] == "c"]
        first = list(dict.fromkeys(streamed))  # a replay repeats, it never skips ahead
        assert first == sorted(first), "the topic has an event out of order"
        assert_versions_in_order(self.values("counters"))

    def assert_no_event_is_missing(self) -> None:
        """Waits until all events of the database are in the topic, which may have others that the database lost."""
        self.changes.stop()
        events = set(self.tables.numbers())
        self.wait_for(lambda: events <= set(self.numbers()), "all events")
