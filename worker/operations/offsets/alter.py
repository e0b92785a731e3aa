"""Changes the stored offsets of a stopped connector (KIP-875), in the order of Apache's workers: first the connector checks them
and changes those that it stores itself, then the worker's own are written.

The caller ensures that the connector is stopped (:func:`worker.operations.offsets.changes.require_stopped`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import TimeoutError as FutureTimeout

from connect.errors import ConnectError, UnsupportedError
from worker.executor import ConnectorSpec, Executor
from worker.model import OffsetEntry
from worker.operations.offsets.changes import SinkOffsets, result_message, sink_changes, sink_pairs, source_changes, unsupported
from worker.operations.offsets.sink_groups import SinkGroups
from worker.storage.offset_store import OffsetPair, OffsetStore

TIMEOUT_S = 80.0
"""How long a connector may take; below the 90 seconds after which REST gives up."""


def alter_source_offsets(
    executor: Executor,
    store: OffsetStore,
    spec: ConnectorSpec,
    offsets: Sequence[OffsetEntry] | None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Changes offsets of a source; None resets all of them. Returns the message for REST. The offsets are durable on return.

    ``store`` is the one that the connector's tasks use, and must be up to date: the worker's topic, and the connector's own if it
    has one, read to the end; with exactly-once, a store whose ``put`` is a transaction after zombies were fenced.

    Raises ConnectError and the connector's errors.
    """
    reset = offsets is None
    if offsets is None:
        offsets = [OffsetEntry(entry.partition, None) for entry in store.entries(spec.name)]
    pairs = source_changes(spec.name, offsets)
    did_all = _ask(executor, spec, pairs, "source", timeout_s)
    if pairs:
        store.put(spec.name, pairs)
    return result_message(did_all, reset=reset)


def alter_sink_offsets(
    executor: Executor,
    groups: SinkGroups,
    spec: ConnectorSpec,
    offsets: Sequence[OffsetEntry] | None,
    *,
    timeout_s: float = TIMEOUT_S,
) -> str:
    """Changes offsets of a sink, which are those of its consumer group.

    A group that still has members, and a partition that does not exist, raise before the connector is asked, so that nothing has
    changed (Apache's workers notice it afterwards).
    """
    reset = offsets is None
    changes: SinkOffsets
    if offsets is None:
        changes = dict.fromkeys(groups.partitions(spec.name, spec.config))
    else:
        changes = sink_changes(offsets)
        for tp, offset in changes.items():
            if offset is not None and offset < 0:
                raise ConnectError(
                    f"Failed to modify offsets for sink connector {spec.name}: Invalid negative offset {offset} for "
                    f"{tp.topic}-{tp.partition}"
                )
    groups.require_changeable(spec.name, spec.config, None if reset else changes)
    did_all = _ask(executor, spec, sink_pairs(changes), "sink", timeout_s, reset=reset)
    # Promise 6: a sink whose tables are the source of truth has stored the offsets there by now, so it will not revert the group.
    if reset:
        groups.reset(spec.name, spec.config)
    else:
        groups.alter(spec.name, spec.config, changes)
    return result_message(did_all, reset=reset)


def _ask(
    executor: Executor, spec: ConnectorSpec, pairs: Sequence[OffsetPair], kind: str, timeout_s: float, *, reset: bool = False
) -> bool:
    try:
        return executor.alter_offsets(spec, pairs, reset=reset).result(timeout_s)
    except UnsupportedError as e:
        raise unsupported(spec.name) from e
    except ConnectError:
        raise
    except FutureTimeout as e:
        raise ConnectError(
            f"Timed out while calling the 'alterOffsets' method for {kind} connector {spec.name}. The connector may still "
            "complete the change: repeat the request later"
        ) from e
    except Exception as e:
        raise ConnectError(f"Failed to modify offsets for {kind} connector {spec.name}: {e}") from e
