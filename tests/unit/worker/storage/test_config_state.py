"""The state that follows from records of the config topic: all recorded scenarios, and what compaction leaves."""

from __future__ import annotations

import pytest

from tests.unit.worker.storage import recorded
from worker.model import TargetState, TaskId
from worker.storage import record_codec
from worker.storage.config_state import (
    ConfigState,
    ConnectorRemoved,
    ConnectorUpdated,
    TargetStateUpdated,
    TasksUpdated,
    Update,
    apply,
)
from worker.storage.record_codec import KeyValue, LoggerRecord, RestartRequest, SessionKey, decode_config

EMPTY = ConfigState()


def after(*records: KeyValue, state: ConfigState = EMPTY) -> tuple[ConfigState, list[Update]]:
    updates: list[Update] = []
    for record in records:
        offset = max(state.offset, 0)
        state, update, problem = apply(state, decode_config(*record), offset)
        assert problem is None
        if update is not None:
            updates.append(update)
    return state, updates


def replayed(scenario: str) -> dict[str, ConfigState]:
    """The state after each step."""
    state, states = EMPTY, {}
    for step in recorded.steps(scenario):
        for record in step.of("configs"):
            state, _, problem = apply(state, decode_config(record.key, record.value), record.offset)
            assert problem is None
        states[step.name] = state
    return states


@pytest.mark.parametrize("scenario", [name for name in recorded.SCENARIOS if name != "own_offsets_topic"])
def test_the_offset_is_the_one_that_workers_sent_to_their_group(scenario: str) -> None:
    states = replayed(scenario)
    # A worker tells the offset it knew when it joined: -1 before the leader of a new cluster wrote its key.
    told = [(states[step.name].offset, step.config_offset) for step in recorded.steps(scenario) if step.config_offset is not None]
    assert told
    for offset, config_offset in told:
        assert config_offset == (offset if offset > 1 else -1)


def test_the_life_cycle_of_a_connector() -> None:
    states = replayed("life_cycle")
    created = states["create a file source (3 lines in the file)"]
    assert created.connectors() == ["lines-src"]
    assert created.tasks("lines-src") == [TaskId("lines-src", 0)]
    assert created.target_state("lines-src") is TargetState.STARTED
    assert created.task_generation("lines-src") == 0
    assert created.pending_fencing("lines-src")
    assert created.applied_config("lines-src") == created.config("lines-src")
    task_config = created.task_config(TaskId("lines-src", 0))
    assert task_config is not None
    assert task_config["task.class"] == "org.apache.kafka.connect.file.FileStreamSourceTask"

    patched = states["PATCH config: one new, one removed"]
    assert patched.task_generation("lines-src") == 2
    config = patched.config("lines-src")
    assert config is not None
    assert config["errors.log.enable"] == "true"
    assert "batch.size" not in config

    assert states["pause"].target_state("lines-src") is TargetState.PAUSED
    stopped = states["stop the source"]
    assert stopped.target_state("lines-src") is TargetState.STOPPED
    assert stopped.tasks("lines-src") == []
    assert stopped.config("lines-src") is not None
    assert states["resume the stopped source"].tasks("lines-src") == [TaskId("lines-src", 0)]

    assert states["create with initial_state STOPPED"].target_state("born-stopped") is TargetState.STOPPED
    assert states["create with initial_state PAUSED"].target_state("born-paused") is TargetState.PAUSED
    assert states["create with initial_state PAUSED"].tasks("born-paused") == []

    assert states["create a source with 3 tasks"].task_count("numbers") == 3
    reduced = states["reduce it to 1 task"]
    assert reduced.tasks("numbers") == [TaskId("numbers", 0)]
    assert reduced.task_config(TaskId("numbers", 1)) is None

    assert "sp ace é" in states["name with space and non-ASCII letter"].connectors()
    last = states["restart the worker with no connectors"]
    assert last.connectors() == []
    assert last.inconsistent == frozenset()
    assert last.tasks("numbers") == []
    assert last.target_state("numbers") is None


def test_the_applied_config_differs_from_the_current_one_until_new_tasks_are_committed() -> None:
    states = replayed("life_cycle")
    before = states["update the source with PUT config"]
    state, _ = after(record_codec.connector_record("lines-src", {"name": "lines-src", "new": "1"}), state=before)
    assert state.config("lines-src") != state.applied_config("lines-src")
    assert state.applied_config("lines-src") == before.config("lines-src")


def test_rounds_of_fencing_are_counted() -> None:
    states = replayed("exactly_once")
    for step, count in (
        ("create a source with 2 tasks", 2),
        ("grow to 3 tasks (fencing of 2)", 3),
        ("shrink to 1 task (fencing of 3)", 1),
        ("change throughput (1 task to 1 task)", 1),
    ):
        assert states[step].task_count_record("numbers") == count
        assert not states[step].pending_fencing("numbers")
        assert states[step].task_count("numbers") == count
    assert states["stop"].pending_fencing("numbers")
    assert states["PATCH offsets"].task_count_record("numbers") == 0
    assert not states["PATCH offsets"].pending_fencing("numbers")
    deleted = states["delete"]
    assert deleted.connectors() == []
    assert not deleted.pending_fencing("numbers")
    assert deleted.task_count_record("numbers") == 1  # a connector of the same name must fence its producers


def test_session_keys_are_stored() -> None:
    key = replayed("life_cycle")["start the first worker"].session_key
    assert key is not None
    assert (key.algorithm, len(key.key), key.creation_timestamp_ms) == ("HmacSHA256", 32, 1795237054714)


CONNECTOR = record_codec.connector_record("c", {"a": "1"})
TASK_0, TASK_1 = (record_codec.task_record(TaskId("c", n), {"n": str(n)}) for n in range(2))


def test_records_become_changes_for_workers() -> None:
    key = SessionKey(b"k", "HmacSHA256", 1)
    _, updates = after(
        record_codec.target_state_record("c", TargetState.PAUSED),  # the initial state of a connector to come: nothing yet
        CONNECTOR,
        TASK_0,
        TASK_1,
        record_codec.commit_record("c", 2),
        record_codec.target_state_record("c", TargetState.STARTED),
        record_codec.task_count_record("c", 2),
        record_codec.session_key_record(key),
        record_codec.restart_record(RestartRequest("c", True, False)),
        record_codec.logger_record(LoggerRecord("x.y", "DEBUG")),
        record_codec.commit_record("c", 0),
        record_codec.connector_tombstone("c"),
        record_codec.target_state_tombstone("c"),
    )
    assert updates == [
        ConnectorUpdated("c"),
        TasksUpdated("c", (TaskId("c", 0), TaskId("c", 1))),
        TargetStateUpdated("c"),
        key,
        RestartRequest("c", True, False),
        LoggerRecord("x.y", "DEBUG"),
        TasksUpdated("c", ()),
        ConnectorRemoved("c"),
    ]


def test_task_configs_are_valid_after_their_commit() -> None:
    state, _ = after(CONNECTOR, TASK_0)
    assert state.tasks("c") == []
    assert state.task_config(TaskId("c", 0)) is None
    state, _ = after(record_codec.commit_record("c", 1), state=state)
    assert state.task_config(TaskId("c", 0)) == {"n": "0"}


def test_an_incomplete_set_makes_the_connector_inconsistent_until_a_complete_one_follows() -> None:
    state, updates = after(CONNECTOR, TASK_1, record_codec.commit_record("c", 2))
    assert state.inconsistent == {"c"}
    assert state.tasks("c") == []
    assert state.task_count("c") == 2
    assert updates[-1] == TasksUpdated("c", ())
    # The task that was there before does not complete a later set.
    state, _ = after(TASK_0, record_codec.commit_record("c", 2), state=state)
    assert state.inconsistent == {"c"}
    state, _ = after(TASK_0, TASK_1, record_codec.commit_record("c", 2), state=state)
    assert state.inconsistent == frozenset()
    assert state.tasks("c") == [TaskId("c", 0), TaskId("c", 1)]


def test_task_records_left_by_compaction_are_ignored() -> None:
    # Two tasks, then one: compaction took the first set's commit, and left its second task.
    state, _ = after(CONNECTOR, TASK_1, TASK_0, record_codec.commit_record("c", 1))
    assert state.inconsistent == frozenset()
    assert state.tasks("c") == [TaskId("c", 0)]


def test_tasks_of_a_deleted_connector_are_ignored_after_compaction() -> None:
    state, updates = after(TASK_0, record_codec.commit_record("c", 1))
    assert (state.connectors(), state.tasks("c"), state.inconsistent, updates) == ([], [], frozenset(), [])
    state, _ = after(CONNECTOR, state=state)
    assert state.tasks("c") == []


def test_a_deleted_target_state_of_an_existing_connector_means_started() -> None:
    state, _ = after(
        CONNECTOR, record_codec.target_state_record("c", TargetState.PAUSED), record_codec.target_state_tombstone("c")
    )  # fmt: skip
    assert state.target_state("c") is TargetState.STARTED


def test_a_recreated_connector_starts_from_scratch() -> None:
    state, _ = after(CONNECTOR, TASK_0, record_codec.commit_record("c", 1), record_codec.connector_tombstone("c"), CONNECTOR)
    assert state.tasks("c") == []
    assert state.applied_config("c") is None


def test_invalid_records_advance_the_offset_and_are_reported() -> None:
    state, update, problem = apply(EMPTY, decode_config(b"nonsense", b"{}"), 41)
    assert (state.offset, update) == (42, None)
    assert problem is not None


def test_a_snapshot_does_not_change() -> None:
    before, _ = after(CONNECTOR)
    after(record_codec.connector_tombstone("c"), record_codec.commit_record("d", 1), state=before)
    assert before.connectors() == ["c"]
    assert before.offset == 1
