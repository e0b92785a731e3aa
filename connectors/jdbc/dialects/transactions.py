"""Transactions for what goes past SQLAlchemy, straight to the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from connectors.jdbc.connection.database import Session


def begin(session: Session) -> None:
    """Makes sure that a transaction runs, for what goes past SQLAlchemy."""
    if not session.connection.in_transaction():
        with session.guarded("beginning a transaction"):
            session.connection.begin()
