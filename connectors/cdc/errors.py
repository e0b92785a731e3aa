"""Errors that decide what a task does next: connect again, take a new snapshot, or fail."""

from __future__ import annotations

from connect.errors import ConnectError, RetriableError


class WaitInterrupted(Exception):
    """A wait ended because the task was asked to stop. Never leaves the package."""


class ConnectionLostError(RetriableError):
    """The server closed the connection, was shut down, or temporarily accepts no connections."""


class QueryTimeoutError(ConnectionLostError):
    """The server took too long to answer a query: it is slow, or the network is cut. Nobody knows which, so a new connection
    tries again."""


class PositionLostError(ConnectError):
    """Changes that the server should have retained no longer exist. Only a new snapshot helps."""


class TablesChangedError(RetriableError):
    """Tables changed between the start of a snapshot and their locks. A new snapshot helps."""


class SourceChangedError(RetriableError):
    """What the task reads from was changed while it was running. A new start finds out what is possible."""


class RejectedStatementError(ConnectError):
    """The server rejected a statement. A statement of a signal that is wrong does not fail the task."""
