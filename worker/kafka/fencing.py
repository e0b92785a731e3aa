"""Fences producers by their transactional ids, as ``Admin.fenceProducers`` does (KIP-618).

The client has no such call. A producer that initializes a transactional id fences its previous producer, whose open transaction
is aborted; it is then closed at once. Each costs four threads and some connections for a moment, so only a few run in parallel.
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
"""The timeout of transactions that are never started. Brokers may limit it; none allows less than this by default."""


def fence_producers(client: Mapping[str, str], transactional_ids: Collection[str], timeout_s: float) -> None:
    """Fences all current producers with these ids: on return they can write nothing more.

    ``client`` are Java-style settings of an admin client, for connection and security. Raises UnreachableError if the brokers do
    not answer in time, ConnectError if they reject the request; some ids may have been fenced then, and repeating the call is
    harmless.
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
        # Failed authentication is reported only here: the client itself would retry until the timeout.
        if error.code() in UNAUTHORIZED:  # type: ignore[attr-defined]  # a KafkaError
            refusals.append(kafka_error(error, what, bootstrap))

    producer = make_producer({**settings, **fencing}, error_cb=on_error)
    # Not closed explicitly: close() would wait for outstanding answers.
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
