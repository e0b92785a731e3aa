"""``GET /`` and ``GET /health``."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from rest.responses import json_response
from worker.herder import WorkerInformation

_HEALTH_STATUSES = {"healthy": 200, "starting": 503}


def add_root_routes(router: APIRouter, herder: WorkerInformation) -> None:
    """Adds version and health of this worker."""

    @router.get("/", tags=["worker"], summary="Version, commit and Kafka cluster of this worker")
    def server_info() -> Response:
        info = herder.server_info()
        return json_response({"version": info.version, "commit": info.commit, "kafka_cluster_id": info.kafka_cluster_id})

    @router.get("/health", tags=["worker"], summary="Whether the worker is ready (KIP-1017)")
    def health() -> Response:
        found = herder.health()
        return json_response({"status": found.status, "message": found.message}, _HEALTH_STATUSES.get(found.status, 500))
