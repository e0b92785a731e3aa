"""``GET /health/live`` and ``GET /health/ready``, for Kubernetes. Not in Apache's worker."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from rest.responses import json_response
from worker.herder import WorkerInformation
from worker.model import Readiness


def add_probes_routes(router: APIRouter, herder: WorkerInformation) -> None:
    """Adds liveness and readiness of this worker."""

    @router.get("/health/live", tags=["worker"], summary="Whether the process works; 503 if a restart is the remedy")
    def live() -> Response:
        return _probe_response(herder.liveness(), "live")

    @router.get("/health/ready", tags=["worker"], summary="Whether the worker runs its share and reaches Kafka")
    def ready() -> Response:
        return _probe_response(herder.readiness(), "ready")


def _probe_response(found: Readiness, status: str) -> Response:
    checks = {one.name: {"ok": one.passes, "message": one.message} for one in found.checks}
    return json_response(
        {"status": status if found.is_ready else f"not {status}", "checks": checks}, 200 if found.is_ready else 503
    )
