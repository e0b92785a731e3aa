"""Settings of the web page."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UiSettings:
    """How the page is served."""

    read_only: bool = False
    target: str | None = None
    """The address of the worker behind the page, if another process serves it (``sluice ui``)."""
