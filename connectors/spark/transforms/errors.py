"""Why a chain, or a case of it, is not compiled."""

from __future__ import annotations


class NotCompilable(Exception):
    """Spark SQL is not certain to give the result of the transformation, so the transformation itself must run. Not an error of
    the data."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
