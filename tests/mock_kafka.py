"""A mock cluster that returns errors on request, for faults that a real single-node broker cannot produce.

It is librdkafka's own mock cluster, which confluent-kafka includes but does not expose to Python.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import TracebackType
from typing import Any

from confluent_kafka import cimpl

_PRODUCER = 0
_BROKER = 1


class Request(IntEnum):
    """API keys of Kafka's protocol."""

    PRODUCE = 0
    INIT_PRODUCER_ID = 22


def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(cimpl.__file__)
    handle, errors = ctypes.c_void_p, ctypes.POINTER(ctypes.c_int)
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "rd_kafka_conf_new": (handle, []),
        "rd_kafka_new": (handle, [ctypes.c_int, handle, ctypes.c_char_p, ctypes.c_size_t]),
        "rd_kafka_destroy": (None, [handle]),
        "rd_kafka_mock_cluster_new": (handle, [handle, ctypes.c_int]),
        "rd_kafka_mock_cluster_destroy": (None, [handle]),
        "rd_kafka_mock_cluster_bootstraps": (ctypes.c_char_p, [handle]),
        "rd_kafka_mock_topic_create": (ctypes.c_int, [handle, ctypes.c_char_p, ctypes.c_int, ctypes.c_int]),
        "rd_kafka_mock_broker_set_down": (ctypes.c_int, [handle, ctypes.c_int32]),
        "rd_kafka_mock_clear_request_errors": (None, [handle, ctypes.c_int16]),
        "rd_kafka_mock_push_request_errors_array": (None, [handle, ctypes.c_int16, ctypes.c_size_t, errors]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class MockKafka:
    """A mock cluster with one broker that runs inside the ``with`` block."""

    def __init__(self) -> None:
        self._library = _library()
        self._client: int | None = None
        self._cluster: int | None = None
        self.bootstrap = ""

    def __enter__(self) -> MockKafka:
        library, text = self._library, ctypes.create_string_buffer(512)
        self._client = library.rd_kafka_new(_PRODUCER, library.rd_kafka_conf_new(), text, len(text))
        assert self._client, text.value
        self._cluster = library.rd_kafka_mock_cluster_new(self._client, 1)
        self.bootstrap = library.rd_kafka_mock_cluster_bootstraps(self._cluster).decode()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._library.rd_kafka_mock_cluster_destroy(self._cluster)
        self._library.rd_kafka_destroy(self._client)

    def create_topic(self, name: str, partitions: int = 1) -> None:
        assert self._library.rd_kafka_mock_topic_create(self._cluster, name.encode(), partitions, 1) == 0

    def go_down(self) -> None:
        """Ends all connections, and accepts no others. The port remains taken, so that no other server answers there."""
        assert self._library.rd_kafka_mock_broker_set_down(self._cluster, _BROKER) == 0

    def refuse(self, request: Request, *codes: int) -> None:
        """Makes the next requests of this type fail with these error codes, in order, without any effect."""
        self._library.rd_kafka_mock_push_request_errors_array(
            self._cluster, int(request), len(codes), (ctypes.c_int * len(codes))(*codes)
        )

    def accept(self, request: Request) -> None:
        """Makes the next requests of this type work again."""
        self._library.rd_kafka_mock_clear_request_errors(self._cluster, int(request))
