"""A session of Spark Connect that only its owner closes. Needs pyspark[connect]."""

from __future__ import annotations

from pyspark.sql.connect.session import SparkSession


class OwnedSession(SparkSession):
    """Is not closed when it is garbage-collected.

    All sessions of a process share PySpark's thread pool that releases results, and closing any of them shuts this pool down.
    PySpark closes collected sessions, too, on whatever thread the collection happens. On one that is just submitting to the pool,
    another session's statement fails. On a thread of the pool, the pool stays shut down, and all statements of the process fail.
    """

    def __del__(self) -> None:
        pass


def create_session(address: str) -> OwnedSession:
    """Returns a new session at an address for ``spark.remote``. Raises PySpark's errors."""
    session = SparkSession.builder.remote(address).create()
    session.__class__ = OwnedSession  # PySpark's builder has no setting for it
    assert isinstance(session, OwnedSession)
    return session
