"""``GET /metrics`` for Prometheus. Not in Apache's worker, which has metrics in JMX."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from worker.herder import MetricsReader
from worker.observability.metrics.exposition import choose_format, render


def add_metrics_routes(router: APIRouter, herder: MetricsReader) -> None:
    """Adds the metrics of this worker."""

    @router.get("/metrics", tags=["worker"], summary="Metrics of this worker, for Prometheus")
    def metrics(request: Request) -> Response:
        format = choose_format(request.headers.get("accept"))
        return Response(render(herder.metrics(), format), headers={"Content-Type": format.value})
