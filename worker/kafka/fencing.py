"""Fences producers by their transactional ids, as ``Admin.fenceProducers`` does (KIP-618).

The client has no such call. A producer that initialises a transactional id fences whoever had it, and what that one left open is
aborted; it is closed at once. Each costs four threads and a few connections for a moment, so there are never many side by side.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from confluent_kafka import KafkaException

from connect.errors import ConnectError, UnreachableError
from worker.kafka.clients import UNAUTHORIZED, UNREACHABLE, kafka_error, make_producer
from worker.kafka.settings import client_settings_of

_AT_ONCE = 8
_SLICE_S = 1.0
_TRANSACTION_TIMEOUT_MS = "10000"
"""Of transactions that are never begun. Brokers may allow little; none allows less than that by default."""


def fence_producers(client: Mapping[str, str], transactional_ids: Collection[str], timeout_s: float) -> None:
    """Returns when no producer with any of these ids that is alive now can write any more.

    ``client`` are Java-style settings of an admin client: connection and security are taken from them. Raises UnreachableError
    when the brokers do not answer within the time, ConnectError when they refuse; some ids may have been fenced then, and doing
    it again does no harm.
    """
    if not transactional_ids:
        return
    settings = {**client_settings_of(client), "bootstrap.servers": client["bootstrap.servers"]}
    settings.pop("client.id", None)
    deadline = time.monotonic() + timeout_s
    with ThreadPoolExecutor(min(_AT_ONCE, len(transactional_ids)), "fence-producers") as pool:
        futures = [pool.submit(partial(_fence, settings, id, deadline)) for id in transactional_ids]
        errors = [error for future in futures if (error := future.exception()) is not None]
    if errors:
        raise errors[0]


def _fence(settings: Mapping[str, str], transactional_id: str, deadline: float) -> None:
    bootstrap = settings["bootstrap.servers"]
    what = f"fencing out producers with transactional id {transactional_id}"
    fencing = {
        "transactional.id": transactional_id,
        "enable.idempotence": "true",
        "transaction.timeout.ms": _TRANSACTION_TIMEOUT_MS,
    }
    refusals: list[ConnectError] = []

    def on_error(error: object) -> None:
        # A log-in that is refused is told here alone: the client itself would try until the time is over.
        if error.code() in UNAUTHORIZED:  # type: ignore[attr-defined]  # a KafkaError
            refusals.append(kafka_error(error, what, bootstrap))

    producer = make_producer({**settings, **fencing}, error_cb=on_error)
    # It is not closed but let go: the client's close() would wait for what has not been answered.
    while (left_s := deadline - time.monotonic()) > 0:
        try:
            producer.init_transactions(min(_SLICE_S, left_s))
            return
        except KafkaException as e:
            error = e.args[0]
            if not error.retriable() and error.code() not in UNREACHABLE:
                raise kafka_error(error, what, bootstrap) from e
        producer.poll(0)
        if refusals:
            raise refusals[0]
    raise UnreachableError(
        f"{what}: no answer from the transaction coordinator within the time. Check that the brokers at {bootstrap} run, and "
        "that their topic __transaction_state can be created and has enough replicas in sync"
    )
