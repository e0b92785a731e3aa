"""What a verification asks a worker: over REST, or through the link of the worker that has started it."""

from __future__ import annotations

from typing import Any, Protocol


class PipelineReader(Protocol):
    """The part of :class:`rest.client.ConnectClient` that a verification reads, with its answers and errors."""

    def connectors(self) -> list[str]: ...

    def connectors_expanded(self, *kinds: str) -> dict[str, Any]: ...

    def config(self, name: str) -> dict[str, str | None]: ...

    def topics(self, name: str) -> list[str]: ...

    def status(self, name: str) -> dict[str, Any]: ...

    def offsets(self, name: str) -> list[dict[str, Any]]: ...
