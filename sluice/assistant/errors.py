"""Errors of tools."""

from __future__ import annotations

from connect.errors import ConnectError


class ToolInputError(ConnectError):
    """An argument of a tool cannot be used."""
